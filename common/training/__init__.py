"""Training on losses, poolings and retrieval: model, optimiser, callbacks, records."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.records import (
        ResumableCallback as ResumableCallback,
        RunDirectory as RunDirectory,
        TrainingCost as TrainingCost,
    )
    from common.training.cached_features import (
        CachedFeatures as CachedFeatures,
        cache_features as cache_features,
        model_above_cut as model_above_cut,
    )
    from common.training.callback_order import check_callback_order as check_callback_order
    from common.training.callbacks import (
        BestWeights as BestWeights,
        EmbeddingDiagnostics as EmbeddingDiagnostics,
        LearningRateRecord as LearningRateRecord,
        MeanLoss as MeanLoss,
        NotFinite as NotFinite,
        PlateauSchedule as PlateauSchedule,
        ProgressBar as ProgressBar,
        RecordMetrics as RecordMetrics,
        RetrievalEvaluation as RetrievalEvaluation,
    )
    from common.training.checkpoint import Checkpoint as Checkpoint
    from common.training.closed_forms import (
        AffineMap as AffineMap,
        principal_components as principal_components,
        within_class_whitening as within_class_whitening,
    )
    from common.training.embedding_head import EmbeddingHead as EmbeddingHead
    from common.training.embedding_model import EmbeddingModel as EmbeddingModel
    from common.training.fit import TrainingSchedule as TrainingSchedule, fit as fit
    from common.training.fused_adam import FusedAdam as FusedAdam, FusedAdamW as FusedAdamW
    from common.training.hosts import fit_on_hosts as fit_on_hosts
    from common.training.in_batch_precision import InBatchPrecision as InBatchPrecision
    from common.training.metric_model import MetricModel as MetricModel
    from common.training.optimizers import (
        CosineSchedule as CosineSchedule,
        CoupledWeightDecay as CoupledWeightDecay,
        GradientClipping as GradientClipping,
        ProxyRateOptimizer as ProxyRateOptimizer,
    )
    from common.training.perturbations import Perturbations as Perturbations
    from common.training.selection import Choice as Choice, choose_model as choose_model
    from common.training.step_schedule import StepSchedule as StepSchedule
    from common.training.traced_functions import TracedFunctions as TracedFunctions
    from common.training.trained_run import Training as Training, train_in as train_in
    from common.training.training_session import training_session as training_session

import_when_used(__name__)
