"""Arguments that functions and layers of the libraries refuse, and what each message says of them."""

import numpy as np
import pytest
import tensorflow as tf

from common import backbones, losses, miners
from common.backbones.input_normalization import InputNormalization
from common.diagnostics import evaluate_clustering
from common.errors import InvalidInput
from common.ops.hyperbolic import pairwise_hyperbolic_distances
from common.ops.k_center import greedy_k_center
from common.ops.normalization import normalize, normalize_groups
from common.ops.sinkhorn import balanced_transport_plan
from common.references import compare
from common.retrieval import match_sequences
from common.training import CoupledWeightDecay, GradientClipping, ProxyRateOptimizer, devices
from common.training.closed_forms import within_class_whitening
from milbich_dml import (
    PolicyAdaptedSampling,
    PolicyRules,
    SamplingDistribution,
    binned,
    compact_groups,
    feature_sizes,
    feature_tasks_loss,
)
from milbich_dml.sampling_policy import actor_loss
from milbich_dml.training_state import TrainingStateHistory

POINTS, LABELS = np.eye(4, dtype=np.float32), np.array([0, 0, 1, 1])
BATCH = tf.constant(POINTS), LABELS, (0, 0)
BINS, TASK = {"log_weights": tf.zeros([4]), "low": 1.0}, losses.MinedLoss(losses.MarginLoss(), seed=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: InputNormalization(std=0.0), "std"),
        (lambda: InputNormalization(channel_order="gbr"), "gbr"),
        (lambda: backbones.bn_inception(input_mean="mine"), "input_mean: received 'mine', expected one of caffe, ima"),
        (lambda: backbones.keras_backbone("AlexNet"), "'AlexNet', expected one of ConvNeXtBase.*Xception"),
        (lambda: backbones.keras_backbone("MobileNet", weights="a.npz"), r"an \.h5 file of Keras for MobileNet"),
        (lambda: backbones.keras_backbone("NASNetMobile"), "image_size.*NASNetMobile is made for one size"),
        (lambda: backbones.mobilenet_v2(output_stride=8), "output_stride: received 8, expected one of 32, 16"),
        (lambda: backbones.resnet10(weights="imagenet"), "no ImageNet weights for resnet10"),
        (lambda: backbones.resnet50(layout="caffe"), "auto, torchvision, keras"),
        (lambda: balanced_transport_plan(POINTS, 0.0, 5), "smoothing"),
        (lambda: balanced_transport_plan(POINTS, 1.0, 0), "num_iterations"),
        (lambda: compare(POINTS, LABELS, anchors="batch"), "received 'batch', expected one of embeddings, references"),
        (lambda: devices.precision_policy("half").__enter__(), "'half', expected one of float32, mixed_float"),
        (lambda: CoupledWeightDecay(-1.0, tf.keras.Sequential()), "weight_decay.*-1.0"),
        (lambda: GradientClipping(0.0, 1.0), "clip_norm"),
        (lambda: ProxyRateOptimizer(tf.keras.optimizers.SGD(), multiplier=0.0), "multiplier"),
        (lambda: evaluate_clustering(np.float32([[0], [np.nan]]), [0, 1]), "embeddings.*row 1"),
        (lambda: evaluate_clustering(POINTS, [0, 0, 0, 0]), "single class"),
        (lambda: greedy_k_center(POINTS, 5), "num_centers.*1 to 4"),
        (lambda: match_sequences(POINTS, POINTS[:, :2], disorder=0, repetition=0, gap=0), "dimension 2"),
        (lambda: match_sequences(POINTS, POINTS, disorder=0, repetition=0, gap=-1.0), "-1"),
        (lambda: normalize(POINTS, "l2"), "received 'l2', expected one of unit, clip, none"),
        (lambda: normalize_groups(tf.zeros([2, 7]), "unit", [3, 3]), "sizes: .* positive numbers that add up to the 7"),
        (lambda: pairwise_hyperbolic_distances(POINTS, POINTS, 0.0), "curvature: .*, expected a number greater than 0"),
        (lambda: within_class_whitening(POINTS, LABELS, 5), "dim: received 5, expected 1 to 3, with 4 items of 4 chan"),
        (lambda: within_class_whitening(np.nan * POINTS, LABELS, 2), "features: received 'NaN or infinite values'"),
        (lambda: miners.distance_weighted(*BATCH, cutoff=1.5), "cutoff: received 1.5, expected a distance in"),
        (lambda: miners.inter_class(*BATCH, negatives="hard"), "'hard', expected one of distance, random, semi_hard"),
        (
            lambda: miners.inter_class(*BATCH, positives="random"),
            "'random', expected one of uniform, distance, n",
        ),
        (lambda: losses.MultiSimilarityLoss(alpha=2.0), "'alpha', expected one of positive_scale, negative_scale, thr"),
        (lambda: losses.ProxyAnchorLoss(4, embedding_size=8), "'embedding_size', .*Did you mean embedding_dim?"),
        (lambda: miners.semi_hard(*BATCH, margin=0), "margin: received 0, expected a number greater than 0"),
        (
            lambda: binned(*BATCH, **BINS, high=2.0, draws="pairs"),
            "draws: received 'pairs', expected one of bins, cand",
        ),
        (lambda: binned(*BATCH, **BINS, high=1.0), r"interval: received \(1.0, 1.0\), expected 0 <= low < hi"),
        (
            lambda: actor_loss(*2 * [tf.zeros([2, 3])], [0, 1], 1.0, "q_learning"),
            "'q_learning', expected one of ppo_a2c",
        ),
        (lambda: PolicyRules("q_learning"), "estimator: received 'q_learning', expected one of ppo_a2c"),
        (lambda: PolicyAdaptedSampling(SamplingDistribution(), dict, ("R@1",), (), 3, 9), r"reward: received \(\)"),
        (lambda: TrainingStateHistory(2).append([1.0, np.nan]), "metrics: received .* expected 2 finite numbers"),
        (lambda: TrainingStateHistory(2).state([1.0], 0.0), "history: received 'no measurement'"),
        (lambda: compact_groups(POINTS, largest=1), "largest"),
        (lambda: compact_groups(POINTS, largest=2, percentile=0), "percentile"),
        (lambda: feature_sizes(5, 6), "num_features: received 6, expected 1 to 5, the components"),
        (lambda: feature_tasks_loss(TASK, {}, (4,)), "tasks: received .* expected at least one of disc_2"),
        (lambda: feature_tasks_loss(TASK, {"intra": TASK}, (4, 4), in_turn=True), "in_turn: received .*intra"),
    ],
)
def test_what_is_refused_is_named(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
