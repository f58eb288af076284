"""Training on top of losses, poolings and retrieval: the model, its optimiser, callbacks and run directory."""

from common.files import read_json, write_arrays, write_atomically, write_json, write_text
from common.records import ResumableCallback
from common.records.environment import environment
from common.records.run_directory import RunDirectory
from common.records.training_cost import TrainingCost
from common.training.cached_features import CachedFeatures, cache_features, model_above_cut
from common.training.callbacks import (
    BestWeights,
    EmbeddingDiagnostics,
    MeanLoss,
    NotFinite,
    PlateauSchedule,
    ProgressBar,
    RecordMetrics,
    RetrievalEvaluation,
)
from common.training.checkpoint import Checkpoint
from common.training.embedding_head import EmbeddingHead
from common.training.embedding_model import EmbeddingModel
from common.training.fit import TrainingSchedule, fit
from common.training.optimizers import CoupledWeightDecay, GradientClipping, ProxyRateOptimizer
from common.training.trained_run import Training, train_in
from common.training.training_session import training_session

__all__ = [
    "BestWeights",
    "CachedFeatures",
    "Checkpoint",
    "CoupledWeightDecay",
    "EmbeddingDiagnostics",
    "EmbeddingHead",
    "EmbeddingModel",
    "MeanLoss",
    "GradientClipping",
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
    "ProxyRateOptimizer",
    "cache_features",
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
