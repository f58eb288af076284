"""A run's parts, built from its configuration: images, batches, model, optimiser, schedule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from common import backbones, data, training
from common.backbones.network_names import OUTPUT_STRIDE
from experiments.parts.registry import OPTIMIZERS
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.run_settings import COSINE
from experiments.settings.splits import split_of, unit_label, unit_seed

if TYPE_CHECKING:
    import tensorflow as tf

    from common.records import ResumableCallback
    from common.training.method import Attached
    from common.training.optimizers import GradientTransform

# Tables of single tokens and positions, which AdamW does not decay, like biases and normalisations.
_TOKENS = re.compile(r"(cls|class|mask|register)_tokens?\b|pos_embed|position_embedding")


class BuiltRun:
    """The parts of one run: what trains it reads no setting.

    Args:
        dataset: with prepared images (see `build.prepare_dataset`).
        fold: which block of classes validates, from 0; 0 where a protocol has no folds.
        decoded_images_mb: see `EvaluationInputs`.

    Attributes:
        label: of the run among others, in words.
        of: the name of the data set, which decides what is measured.
        batches: the sampler of training batches.
        methods: around the loss, the innermost first.
        head_start: the closed form with which the head's linear layer starts, or `random`.
        measures_clustering: whether each validation has NMI.
        features_of: what decides the features below the cut, if those are cached; see `cache_features`.
        others: see `common.training.method.Run` and `Split`.
    """

    def __init__(
        self, config: ExperimentConfig, dataset: data.Dataset, fold: int, repeat: int, decoded_images_mb: float = 0
    ) -> None:
        self.config, self.fold, self.repeat = config, fold, repeat
        self.label = f"{config.name} {unit_label(config, fold, repeat)}"
        self.seed = unit_seed(config.seed, fold, repeat)
        self.metric, self.max_steps, self.methods = config.monitor, config.max_steps, config.methods
        self.of, self.head_start, self.embedding_dim = config.dataset, config.head_start, config.embedding_dim
        self.measures_clustering, self.jit_compile = config.validates_clustering, config.jit_compile
        self.features_of = origin_of_features(config) if config.cached_features else None
        self.read_from(dataset, decoded_images_mb)
        self.batches = build.build_batches(config, self.training.labels, self.seed, self.training.superclasses)
        self.batches_per_epoch = self.batches.batches_per_epoch

    def read_from(self, dataset: data.Dataset, decoded_images_mb: float = 0) -> None:
        """Read images, or features, from a data set with the same labels."""
        self.dataset = dataset
        parts = split_of(dataset, self.config, self.fold, self.repeat)
        self.training, self.queries, self.gallery, self.watched = parts
        self.augmentation = build.build_augmentation(self.config, dataset)
        self.inputs = build.build_inputs(self.config, dataset, decoded_images_mb)

    def batches_from(self, step: int) -> tf.data.Dataset:
        """Return the training batches from a step on."""
        given = self.training, self.batches, self.augmentation, self.seed
        return data.training_batches(
            *given, start_step=step, with_places=any(method.has_places for method in self.methods)
        )

    def built_model(self) -> training.EmbeddingModel:
        """Build the model on its devices, with all weights."""
        from common.training.devices import mirrored_strategy, synchronize_batch_normalization

        sizes = self.training.num_classes, self.seed, len(self.training)
        with mirrored_strategy(self.config.replicas or 1).scope():
            model = build.build_model(self.config, self.dataset, *sizes)
            model.build_from_spec(*self.batches_from(0).element_spec)
        if self.config.replicas:
            synchronize_batch_normalization(model)
        return model

    @property
    def traced(self) -> tuple:
        """Key of runs that share traced functions."""
        return self.config, self.training.num_classes, build.drawing_seed(self.config, self.seed)

    def optimizer(
        self, model: training.EmbeddingModel, rates: Sequence[tuple[tf.Variable, float]] = ()
    ) -> training.ProxyRateOptimizer:
        """Make a fresh optimiser; refuse `layer_decay` of a network without blocks.

        Args:
            rates: variables that learn at another rate, with its factor.
        """
        from common.training.devices import scaled_optimizer

        config = self.config
        rule = OPTIMIZERS[config.optimizer]
        given = {name: getattr(config, name) for name in rule.given}
        optimizer = rule(config.own("optimizer"), **given)
        if rule.decays:
            optimizer.exclude_from_weight_decay(var_list=[w for w in model.trainable_variables if not _is_decayed(w)])
        cosine = config.learning_rate_schedule == COSINE
        of_blocks = [] if config.layer_decay is None else backbones.block_rates(model.backbone, config.layer_decay)
        return training.ProxyRateOptimizer(
            scaled_optimizer(optimizer, config.precision),
            config.proxy_multiplier,
            schedule=training.CosineSchedule(config.learning_rate, config.max_steps) if cosine else None,
            rates=[*rates, *of_blocks],
            ema_decay=config.ema_decay,
        )

    def transforms(self, model: training.EmbeddingModel, attached: Sequence[Attached] = ()) -> list[GradientTransform]:
        """Return the ordered transforms of gradients: the methods', L2 unless the optimiser decays, clipping."""
        config, transforms = self.config, [transform for each in attached for transform in each.transforms]
        if not OPTIMIZERS[config.optimizer].decays:
            transforms.append(training.CoupledWeightDecay(config.weight_decay, model))
        if config.clip_norm:
            transforms.append(training.GradientClipping(config.clip_norm, config.clip_value))
        return transforms

    def rate_callbacks(self) -> list[ResumableCallback]:
        """Return the callbacks of the learning rate."""
        config = self.config
        callbacks: list[ResumableCallback] = []
        if config.learning_rate_schedule == COSINE:
            callbacks.append(training.LearningRateRecord())
        if config.rate_drop_step is not None and config.rate_drop_factor is not None:
            callbacks.append(training.StepSchedule([config.rate_drop_step], config.rate_drop_factor))
        return callbacks

    def schedule(self, checkpoint_seconds: float) -> training.TrainingSchedule:
        """Return when the run validates, stops and keeps a checkpoint."""
        config = self.config
        return training.TrainingSchedule(
            max_steps=config.max_steps,
            steps_per_evaluation=config.steps_per_evaluation,
            patience=config.patience,
            warm_up_steps=config.warm_up_steps or config.warm_up_epochs * self.batches_per_epoch,
            warm_up_trains_all=config.warm_up_trains_all,
            plateau_patience=config.plateau_patience,
            monitor=config.monitor,
            selection_start=config.selection_start or 0,
            checkpoint_seconds=checkpoint_seconds,
        )


def origin_of_features(config: ExperimentConfig) -> dict[str, object]:
    """Return the settings that decide the features below a cut, JSON values."""
    names = ("backbone", "trained_from", "image_size")
    others = {"output_stride": OUTPUT_STRIDE, "copies": "exact"}  # newer than the first features
    changed = [name for name, value in others.items() if getattr(config, name) != value]
    own = {kind: each.as_dict() for kind, each in config.providers().items() if kind in ("backbone", "crop")}
    return {name: getattr(config, name) for name in (*names, *changed)} | ({"plugins": own} if own else {})


def _is_decayed(weight: tf.Variable) -> bool:
    return len(weight.shape) > 1 and not _TOKENS.search(getattr(weight, "path", weight.name))
