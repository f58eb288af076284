"""The trainer of one run, from its split to its figures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from common import data, diagnostics, records, training
from common.commands.memory import keep_freed_memory
from common.data import Dataset, Examples
from common.errors import InvalidInput
from common.progress import write_notice
from common.records import RunDirectory
from common.training.method import Attached, merge
from experiments.rows.rows import evaluate_embeddings
from experiments.runs.cached_training import features_below_cut
from experiments.runs.closed_form import start_head, untrained_metrics
from experiments.runs.evaluation_inputs import EvaluationInputs, embedded, normalized_mutual_information
from experiments.runs.splits import split_of, unit_label, unit_seed
from experiments.runs.update_rule import rate_callbacks, schedule_of, transforms_of, update_rule
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places

if TYPE_CHECKING:
    import tensorflow as tf

    from common.training.trackers import TrackedRun

Watcher: TypeAlias = Callable[[int, dict[str, float]], None]  # of a step and its validation metrics


class Unit:
    """Trainer of one run in its directory: what methods see as a `Run`.

    Args:
        dataset: with prepared images (see `build.prepare_dataset`).
        fold: which block of classes validates, from 0; 0 where a protocol has no folds.
    """

    model: training.EmbeddingModel

    def __init__(
        self,
        config: ExperimentConfig,
        dataset: Dataset,
        fold: int,
        repeat: int,
        run: RunDirectory,
        fingerprint: str,
        places: Places,
    ):
        self.config, self.dataset, self.fold, self.repeat, self.run = config, dataset, fold, repeat, run
        self.fingerprint, self.places, self.config_hash = fingerprint, places, config.hash(fingerprint)
        self._split()
        self.folder, self.image_names, self.seed = run.path, self.training.paths, unit_seed(config.seed, fold, repeat)
        self.batches = build.build_batches(config, self.training.labels, self.seed, self.training.superclasses)
        self.batches_per_epoch = self.batches.batches_per_epoch
        self._memory = build.memory_of(self.batches)
        self.inputs = EvaluationInputs(config, dataset, places.decoded_images_mb)

    def _split(self) -> None:
        """Divide the data set into training, validation and watched images."""
        parts = split_of(self.dataset, self.config, self.fold, self.repeat)
        self.training, self.queries, self.gallery, self.watched = parts

    @property
    def augmentation(self) -> data.ImageTransform:
        """The augmentation of training images."""
        return build.build_augmentation(self.config, self.dataset)

    def train(
        self,
        checkpoint_seconds: float = 30.0,
        watch: Watcher | None = None,
        tracked: TrackedRun | None = None,
        traces: training.TracedFunctions | None = None,
    ) -> dict:
        """Train or resume, evaluate and save, with traces of earlier units; see `fit`."""
        keep_freed_memory()
        traces = traces or training.TracedFunctions()
        prepare = functools.partial(self._prepared, checkpoint_seconds, watch, traces)
        try:
            return training.train_in(self.run, self.seed, prepare, tracked)
        except training.NotFinite as error:
            raise InvalidInput(f"{error} {self._describe_batch(error.step)}") from error
        finally:
            traces.release()
            self.inputs.release()

    def _prepared(
        self, checkpoint_seconds: float, watch: Watcher | None, traces: training.TracedFunctions
    ) -> training.Training:
        config, cost = self.config, records.TrainingCost()
        model = whole = self._build_model()
        if config.cached_features:
            model = self._above_cut(whole)
            cost = records.TrainingCost()  # without the features, which are computed once for many units
        self.model = model
        model.share_traces(traces, (config, self.training.num_classes, build.drawing_seed(config, self.seed)))
        before = untrained_metrics(self)
        with model.distribute_strategy.scope():
            start_head(model, config, self.inputs, self.training)
            attached = [method.attach(self) for method in reversed(config.methods)]  # the outermost first
        return training.Training(
            model,
            self._batches_of,
            self._validation_metrics,
            schedule_of(config, self.batches_per_epoch, checkpoint_seconds),
            functools.partial(update_rule, config, model, [rate for each in attached for rate in each.rates]),
            lambda history: self._figures(before, attached),
            cost,
            gradient_transforms=transforms_of(config, model, attached),
            callbacks=[*rate_callbacks(config), *(callback for each in attached for callback in each.callbacks)],
            description=f"{config.name} {unit_label(config, self.fold, self.repeat)}",
            deviations=self.dataset.deviations,
            whole=whole,
            watch=watch,
            jit_compile=config.jit_compile,
            renews_batches=self._memory is not None,
        )

    def _describe_batch(self, step: int) -> str:
        """Describe a training batch for people: places in the unit, or files."""
        _, indices = next(iter(self.batches.from_step(step)))
        names = indices if self.image_names is None else self.image_names[indices]
        classes = ", ".join(map(str, np.unique(self.training.labels[indices])))
        return f"That batch was of the classes {classes}: {', '.join(map(str, names))}."

    def _build_model(self) -> training.EmbeddingModel:
        from common.training.devices import mirrored_strategy, synchronize_batch_normalization

        with mirrored_strategy(self.config.replicas or 1).scope():
            sizes = self.training.num_classes, self.seed, len(self.training)
            model = build.build_model(self.config, self.dataset, *sizes)
            model.build_from_batch(*next(iter(self._batches_from(0))))
        if self.config.replicas:
            synchronize_batch_normalization(model)
        return model

    def _above_cut(self, whole: training.EmbeddingModel) -> training.EmbeddingModel:
        """Replace images by features below the cut; return the model above it."""
        place = self.fingerprint, self.places.cache_dir, self.run
        self.dataset = features_below_cut(whole, self.config, self.dataset, *place).dataset
        self._split()
        self.inputs = EvaluationInputs(self.config, self.dataset)
        model = training.model_above_cut(whole)
        model.build_from_batch(*next(iter(self._batches_from(0))))
        return model

    def _batches_of(self, step: int) -> tf.data.Dataset:
        """Return the batches from a step on, perhaps chosen by the model's present weights."""
        if self._memory is not None:
            self._memory.remember(self.model.embed(self.inputs(self.training)))
        return self._batches_from(step)

    def _batches_from(self, step: int) -> tf.data.Dataset:
        with_places = build.has_places(self.config)
        return data.training_batches(
            self.training, self.batches, self.augmentation, self.seed, start_step=step, with_places=with_places
        )

    def embedded(self, queries: Examples, gallery: Examples | None = None, output: str = "embeddings"):
        """Embed examples by the present weights, in the format of `evaluate_embeddings`."""
        return embedded(self.model, self.inputs, queries, gallery, output)

    def embed_test(self) -> np.ndarray:
        """Return the present embeddings of the test images, `[images, dim]`."""
        return self.embedded(self.dataset.test)["queries"]

    def _validation_metrics(self) -> dict[str, float]:
        """Evaluate current weights, with NMI and every R@k that tables print."""
        arrays = embedded(self.model, self.inputs.repeated, self.queries, self.gallery)
        if not self.config.validates_clustering:
            return evaluate_embeddings(arrays).as_dict()
        return evaluate_embeddings(arrays, self.config.dataset).as_dict() | {
            "NMI": normalized_mutual_information(arrays)
        }

    def _figures(self, before: dict[str, dict], attached: list[Attached]) -> tuple[dict, dict[str, np.ndarray]]:
        """Evaluate the best weights; return the result's entries and the embeddings."""
        embeddings = self.embedded(self.dataset.test, self.dataset.gallery)
        result: dict = {
            "config_hash": self.config_hash,
            "fold": self.fold,
            "repeat": self.repeat,
            "test": evaluate_embeddings(embeddings, self.config.dataset).as_dict(),
            **{name: figures for name, figures in before.items() if figures},
            "diagnostics": diagnostics.diagnose(embeddings["queries"], embeddings["query_labels"]).as_dict(),
            "validation_classes": self.queries.num_classes,
        }
        for each in attached:
            merge(result, each.figures(embeddings))
        if "warning" in result["diagnostics"]:
            write_notice(f"warning: test embeddings: {result['diagnostics']['warning']}")
        return result, embeddings
