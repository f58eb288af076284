"""Training on losses, poolings and retrieval: model, optimiser, callbacks, records."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.records import ResumableCallback, RunDirectory, TrainingCost
    from common.training.cached_features import CachedFeatures, cache_features, model_above_cut
    from common.training.callback_order import check_callback_order
    from common.training.callbacks import (
        BestWeights,
        EmbeddingDiagnostics,
        LearningRateRecord,
        MeanLoss,
        NotFinite,
        PlateauSchedule,
        ProgressBar,
        RecordMetrics,
        RetrievalEvaluation,
    )
    from common.training.checkpoint import Checkpoint
    from common.training.closed_forms import AffineMap, principal_components, within_class_whitening
    from common.training.embedding_head import EmbeddingHead
    from common.training.embedding_model import EmbeddingModel
    from common.training.fit import TrainingSchedule, fit
    from common.training.fused_adam import FusedAdam, FusedAdamW
    from common.training.hosts import fit_on_hosts
    from common.training.in_batch_precision import InBatchPrecision
    from common.training.metric_model import MetricModel
    from common.training.optimizers import CosineSchedule, CoupledWeightDecay, GradientClipping, ProxyRateOptimizer
    from common.training.perturbations import Perturbations
    from common.training.selection import Choice, choose_model
    from common.training.step_schedule import StepSchedule
    from common.training.traced_functions import TracedFunctions
    from common.training.trained_run import Training, train_in
    from common.training.training_session import training_session

__all__ = [
    "AffineMap",
    "BestWeights",
    "CachedFeatures",
    "Checkpoint",
    "Choice",
    "CosineSchedule",
    "CoupledWeightDecay",
    "EmbeddingDiagnostics",
    "EmbeddingHead",
    "EmbeddingModel",
    "FusedAdam",
    "FusedAdamW",
    "InBatchPrecision",
    "LearningRateRecord",
    "MeanLoss",
    "GradientClipping",
    "MetricModel",
    "NotFinite",
    "Perturbations",
    "PlateauSchedule",
    "ProgressBar",
    "RecordMetrics",
    "ResumableCallback",
    "RetrievalEvaluation",
    "RunDirectory",
    "StepSchedule",
    "TracedFunctions",
    "Training",
    "TrainingCost",
    "TrainingSchedule",
    "ProxyRateOptimizer",
    "cache_features",
    "check_callback_order",
    "choose_model",
    "fit",
    "fit_on_hosts",
    "model_above_cut",
    "principal_components",
    "train_in",
    "training_session",
    "within_class_whitening",
]
import_when_used(__name__)
