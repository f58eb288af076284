"""The trainer of one run, from its split to its figures."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from common import diagnostics, records, training
from common.commands.memory import keep_freed_memory
from common.data import Dataset, Examples
from common.errors import InvalidInput
from common.files import default_cache_dir, read_json, write_json
from common.progress import write_notice
from common.records import RunDirectory
from common.retrieval.metrics import TABLE_METRICS
from common.training.method import Attached, merge
from experiments.rows.rows import evaluate_embeddings
from experiments.runs.closed_form import start_head, untrained_metrics
from experiments.runs.evaluation import embedded, normalized_mutual_information
from experiments.runs.trained_model import begin_from
from experiments.settings import build
from experiments.settings.built_run import BuiltRun
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places

if TYPE_CHECKING:
    import tensorflow as tf

    from common.training.trackers import TrackedRun

_FEATURES = "features.json"
Watcher: TypeAlias = Callable[[int, dict[str, float]], None]  # of a step and its validation metrics


class Unit(BuiltRun):
    """Trainer of one run in its directory; methods see it as a `Run`."""

    model: training.EmbeddingModel
    validated_before: Sequence[float] = ()

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
        super().__init__(config, dataset, fold, repeat, places.decoded_images_mb)
        self.run, self.folder, self.image_names = run, run.path, self.training.paths
        self.fingerprint, self.places, self.config_hash = fingerprint, places, config.hash(fingerprint)
        self._memory = build.memory_of(config, self.batches)

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
        cost = records.TrainingCost()
        model = whole = self.built_model()
        if self.features_of:
            model = self._above_cut(whole)
            cost = records.TrainingCost()  # without the features, which are computed once for many units
        self.model = model
        model.share_traces(traces, self.traced)
        before = untrained_metrics(self)
        with model.distribute_strategy.scope():
            if self.config.start_from is None:
                start_head(model, self.head_start, self.inputs, self.training)
            else:
                self.validated_before = begin_from(model, self.config, self.fold, self.repeat, self.fingerprint)
            attached = [method.attach(self) for method in reversed(self.methods)]  # the outermost first
        return training.Training(
            model,
            self._batches_of,
            self._validation_metrics,
            self.schedule(checkpoint_seconds),
            functools.partial(self.optimizer, model, [rate for each in attached for rate in each.rates]),
            lambda history: self._figures(before, attached),
            cost,
            gradient_transforms=self.transforms(model, attached),
            callbacks=[*self.rate_callbacks(), *(callback for each in attached for callback in each.callbacks)],
            description=self.label,
            deviations=self.dataset.deviations,
            whole=whole,
            watch=watch,
            jit_compile=self.jit_compile,
            renews_batches=self._memory is not None,
        )

    def _describe_batch(self, step: int) -> str:
        """Describe a training batch for people: places in the unit, or files."""
        _, indices = next(iter(self.batches.from_step(step)))
        names = indices if self.image_names is None else self.image_names[indices]
        classes = ", ".join(map(str, np.unique(self.training.labels[indices])))
        return f"That batch was of the classes {classes}: {', '.join(map(str, names))}."

    def _above_cut(self, whole: training.EmbeddingModel) -> training.EmbeddingModel:
        """Replace images by features below the cut; return the model above it.

        Missing features are computed. The run's folder keeps a record of them, and rejects others.
        """
        folder = os.path.join(self.places.cache_dir or default_cache_dir(), "features", self.dataset.name)
        origin = {"data": self.fingerprint, **(self.features_of or {})}
        transforms, size = (self.augmentation, self.inputs.preprocessing), self.inputs.batch_size
        lower = whole.backbone.lower
        features = training.cache_features(self.dataset, lower, *transforms, folder, origin, batch_size=size)
        digests = {"training": features.training.digest, "evaluation": features.evaluation.digest}
        recorded = read_json(self.folder / _FEATURES)
        if recorded is None:
            write_json(self.folder / _FEATURES, digests)
        elif recorded != digests:
            raise InvalidInput(
                f"{self.folder} was begun with other features than the network now gives: its weights, the views or "
                f"this code have changed since. Delete {self.folder} to train it again."
            )
        self.read_from(features.dataset)
        model = training.model_above_cut(whole)
        model.build_from_spec(*self.batches_from(0).element_spec)
        return model

    def _batches_of(self, step: int) -> tf.data.Dataset:
        """Return the batches from a step on, perhaps chosen by the model's present weights."""
        if self._memory is not None:
            self._memory.remember(self.model.embed(self.inputs(self.training)))
        return self.batches_from(step)

    def embedded(self, queries: Examples, gallery: Examples | None = None, output: str = "embeddings"):
        """Embed examples by the present weights, in the format of `evaluate_embeddings`."""
        return embedded(self.model, self.inputs, queries, gallery, output)

    def embed_test(self) -> np.ndarray:
        """Return the present embeddings of the test images, `[images, dim]`."""
        return self.embedded(self.dataset.test)["queries"]

    def measured(self) -> dict[str, dict[str, float]]:
        """Return the present weights' metrics of the validation and the test images."""
        test = evaluate_embeddings(self.embedded(self.dataset.test, self.dataset.gallery)).as_dict()
        found = {"validation": self._validation_metrics(), "test": test}
        return {part: {name: figures[name] for name in TABLE_METRICS} for part, figures in found.items()}

    def _validation_metrics(self) -> dict[str, float]:
        """Evaluate current weights, with NMI and every R@k that tables print."""
        arrays = embedded(self.model, self.inputs.repeated, self.queries, self.gallery)
        if not self.measures_clustering:
            return evaluate_embeddings(arrays).as_dict()
        return evaluate_embeddings(arrays, self.of).as_dict() | {"NMI": normalized_mutual_information(arrays)}

    def _figures(self, before: dict[str, dict], attached: list[Attached]) -> tuple[dict, dict[str, np.ndarray]]:
        """Settle and evaluate the best weights; return the result's entries and the embeddings."""
        for each in attached:
            each.settle()
        embeddings = self.embedded(self.dataset.test, self.dataset.gallery)
        result: dict = {
            "config_hash": self.config_hash,
            "fold": self.fold,
            "repeat": self.repeat,
            "test": evaluate_embeddings(embeddings, self.of).as_dict(),
            **{name: figures for name, figures in before.items() if figures},
            "diagnostics": diagnostics.diagnose(embeddings["queries"], embeddings["query_labels"]).as_dict(),
            "validation_classes": self.queries.num_classes,
        }
        for each in attached:
            merge(result, each.figures(embeddings))
        if "warning" in result["diagnostics"]:
            write_notice(f"warning: test embeddings: {result['diagnostics']['warning']}")
        return result, embeddings
