"""Training of small backbones to classify CIFAR or characters."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib

import numpy as np
import tensorflow as tf

from common import backbones, data, training
from common.errors import check_choice, invalid
from common.files import default_cache_dir
from common.losses import MetricLoss
from common.pooling import GlobalAveragePooling
from common.records import RunDirectory, TrainingCost
from experiments.preparation.pretrain_settings import CLASSES, DATASETS, GLYPHS, PretrainSettings
from experiments.settings import build

_EVALUATION_BATCH = 500


class SoftmaxCrossEntropyLoss(MetricLoss):
    """Mean cross-entropy of softmax(logits).

    Input shape: logits `[batch, classes]` (the head's embeddings), labels `[batch]` from 0.
    Output: a scalar.
    """

    def __init__(self, **kwargs):
        super().__init__(normalization="none", **kwargs)

    def call(self, embeddings, labels, references=None):
        """Return the loss of a batch; it takes no references."""
        del references
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(embeddings, tf.float32))
        return tf.reduce_mean(losses)


def run_of(settings: PretrainSettings, dataset: data.Dataset, classes: str, runs_dir: str) -> RunDirectory:
    """Return a run's folder, named after everything that decides its outcome."""
    identity = {
        **dataclasses.asdict(settings),
        "dataset": dataset.name,
        "classes": classes,
        "data": build.data_fingerprint(dataset),
    }
    digest = hashlib.sha256(repr(sorted(identity.items())).encode()).hexdigest()[:10]
    name = f"{settings.backbone}-{dataset.name}-{classes}-{digest}"
    return RunDirectory(pathlib.Path(runs_dir) / "pretrain" / name, identity)


def pretrain(
    settings: PretrainSettings, dataset: data.Dataset, run: RunDirectory, checkpoint_seconds: float = 30.0
) -> dict:
    """Train, resume or read a run; write `backbone.npz` into its folder.

    Args:
        dataset: images whose training and test classes are the same.

    Returns:
        The result: `validation` (best accuracy on the test images, and its step) and `steps`.
    """
    return training.train_in(
        run, settings.seed, functools.partial(_prepared, settings, dataset, run, checkpoint_seconds)
    )


def _prepared(
    settings: PretrainSettings, dataset: data.Dataset, run: RunDirectory, checkpoint_seconds: float
) -> training.Training:
    cost = TrainingCost()
    batches_from = functools.partial(_batches_from, settings, dataset.train)
    backbone = getattr(backbones, settings.backbone)(dataset.channels)
    head = training.EmbeddingHead(GlobalAveragePooling(), dataset.train.num_classes)
    model = training.EmbeddingModel(backbone, head, SoftmaxCrossEntropyLoss(), normalization="none")
    model.build_from_spec(*batches_from(0).element_spec)

    def keep_backbone(history: dict) -> tuple[dict, dict]:
        del history
        backbones.save_parameters(backbone, run.path / "backbone.npz")
        return {}, {}

    return training.Training(
        model,
        batches_from,
        lambda: {"accuracy": accuracy(model, dataset.test)},
        training.TrainingSchedule(
            max_steps=settings.max_steps,
            steps_per_evaluation=settings.steps_per_evaluation,
            patience=settings.patience,
            plateau_patience=settings.plateau_patience,
            monitor="accuracy",
            checkpoint_seconds=checkpoint_seconds,
        ),
        lambda: training.ProxyRateOptimizer(training.FusedAdam(settings.learning_rate)),
        keep_backbone,
        cost,
        gradient_transforms=[training.CoupledWeightDecay(settings.weight_decay, model)],
        description=f"{settings.backbone} on {dataset.name}",
        deviations=dataset.deviations,
    )


def _batches_from(settings: PretrainSettings, train: data.Examples, step: int) -> tf.data.Dataset:
    classes = min(settings.classes_per_batch, train.num_classes)
    batches = data.ClassBalancedBatches(train.labels, classes, settings.samples_per_class, settings.seed)
    # A rotated character is a different one.
    augmentation = data.RandomShift(4, flip=True) if train.arrays.shape[-1] == 3 else data.RandomShift(2)
    return data.training_batches(train, batches, augmentation, settings.seed, start_step=step)


def accuracy(model: training.EmbeddingModel, examples: data.Examples) -> float:
    """Return the share of images whose largest logit is their class's."""
    logits = model.embed(data.evaluation_batches(examples, data.Identity(), _EVALUATION_BATCH))
    return float(np.mean(logits.argmax(axis=1) == examples.labels))


def load_images(name: str, data_dir: str | None, classes: str) -> data.Dataset:
    """Load CIFAR (official split) or glyphs, with all or the collages' classes."""
    check_choice("--classes", classes, CLASSES)
    check_choice("--dataset", name, DATASETS)
    if classes != "all" and name != "cifar100":
        raise invalid("--classes", received=classes, expected="all", fix="Only CIFAR-100 has the thesis' collages.")
    if name == GLYPHS:
        dataset = data.load_latin_glyphs(cache_dir=default_cache_dir())
    else:
        dataset = build.load_dataset(name, data_dir, None, 0)
    if classes == "all":
        return dataset
    chosen = np.array(data.collage_training_classes(data_dir))
    return dataclasses.replace(
        dataset,
        train=dataset.train.select_classes(chosen),
        test=dataset.test.select_classes(chosen),
        class_names=tuple(dataset.class_names[label] for label in chosen),
    )
