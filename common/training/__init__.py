"""Training on top of losses, poolings and retrieval: the model, its optimiser, callbacks and run directory."""

from common.training.cached_features import CachedFeatures, cache_features, model_above_cut
from common.training.callback_order import check_callback_order
from common.training.callbacks import (
    BestWeights,
    EmbeddingDiagnostics,
    MeanLoss,
    NotFinite,
    PlateauSchedule,
    ProgressBar,
    RecordMetrics,
    ResumableCallback,
    RetrievalEvaluation,
)
from common.training.checkpoint import Checkpoint
from common.training.embedding_head import EmbeddingHead
from common.training.embedding_model import EmbeddingModel
from common.training.environment import environment
from common.training.fit import TrainingSchedule, fit
from common.training.in_batch_precision import InBatchPrecision
from common.training.metric_model import MetricModel
from common.training.optimizers import CoupledWeightDecay, GradientClipping, TwoSpeedOptimizer
from common.training.run_directory import (
    RunDirectory,
    read_json,
    write_arrays,
    write_atomically,
    write_json,
    write_text,
)
from common.training.trained_run import Training, train_in
from common.training.training_cost import TrainingCost
from common.training.training_session import training_session

__all__ = [
    "BestWeights",
    "CachedFeatures",
    "Checkpoint",
    "CoupledWeightDecay",
    "EmbeddingDiagnostics",
    "EmbeddingHead",
    "EmbeddingModel",
    "InBatchPrecision",
    "MeanLoss",
    "GradientClipping",
    "MetricModel",
    "NotFinite",
    "PlateauSchedule",
    "ProgressBar",
    "RecordMetrics",
    "ResumableCallback",
    "RetrievalEvaluation",
    "RunDirectory",
    "Training",
    "TrainingCost",
    "TrainingSchedule",
    "TwoSpeedOptimizer",
    "cache_features",
    "check_callback_order",
    "environment",
    "fit",
    "model_above_cut",
    "read_json",
    "train_in",
    "training_session",
    "write_arrays",
    "write_atomically",
    "write_json",
    "write_text",
]
