"""A unit of a protocol: training with one seed, then embedding the test set."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

import milbich_dml
from common import data, diagnostics, losses, records, training
from common.data import Dataset, Examples
from common.errors import InvalidInput, check_given
from common.files import read_json, write_arrays, write_json
from common.progress import write_notice
from common.records import RunDirectory
from common.retrieval.metrics import TABLE_METRICS
from experiments.rows.rows import evaluate_embeddings
from experiments.rows.run_folders import CLOSED_FORM, UNTRAINED, VALIDATED_BEFORE
from experiments.runs.cached_training import features_below_cut
from experiments.runs.closed_form import closed_form_figures, figures_on_sphere, start_head
from experiments.runs.evaluation_inputs import EvaluationInputs
from experiments.runs.feature_figures import feature_figures
from experiments.runs.pooling_weights import perplexity_callbacks
from experiments.runs.projection_snapshots import snapshot_recorder
from experiments.runs.sampling_teacher import SAMPLING, teacher_of
from experiments.runs.splits import split_of, unit_seed
from experiments.runs.update_rule import coupled_decay, update_rule
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.loss_building import feature_slices
from experiments.settings.method_names import GROUPS
from experiments.settings.methods.ccp import ProjectionSettings
from experiments.settings.methods.features import BY_FEATURES, BY_SLICE, STANDARDIZED, GroupSettings
from experiments.settings.places import Places
from experiments.settings.run_settings import COSINE, FINAL

if TYPE_CHECKING:
    import tensorflow as tf

    from ccp_dml import AlternatingProjections
    from common.training.optimizers import GradientTransform
    from common.training.trackers import TrackedRun

Watcher: TypeAlias = Callable[[int, dict[str, float]], None]  # of a step and its validation metrics
MONITORED = {
    "conventional": "stops on the test set",
    "held_out": "stops on held-out classes",
    FINAL: "all training classes",
}
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h
_FIRST = {STANDARDIZED: "standardized", BY_FEATURES: "none", BY_SLICE: "centred"}  # treatment of features


def unit_label(config: ExperimentConfig, fold: int, repeat: int) -> str:
    """Name a unit among the others of its method."""
    if config.protocol is None:
        return f"fold {fold} repeat {repeat}"
    return f"{MONITORED[config.protocol]}, repeat {repeat}"


class Unit:
    """Trainer of one unit of a configuration, in its run directory.

    Args:
        dataset: with prepared images (see `build.prepare_dataset`).
        fold: which block of classes validates, from 0; 0 where a protocol has no folds.
    """

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
        self._split(dataset)
        self.image_names = self.training.paths
        self.seed = unit_seed(config.seed, fold, repeat)
        self.batches = build.build_batches(config, self.training.labels, self.seed, self.training.superclasses)
        self._memory = build.memory_of(self.batches)
        self._inputs = EvaluationInputs(config, dataset, places.decoded_images_mb)

    def _split(self, dataset: Dataset) -> None:
        """Divide a data set into training, validation and PADS' watched images."""
        parts = split_of(dataset, self.config, self.fold, self.repeat)
        self.training, self.queries, self.gallery, self.watched = parts

    def train(
        self,
        checkpoint_seconds: float = 30.0,
        watch: Watcher | None = None,
        tracked: TrackedRun | None = None,
        traces: training.TracedFunctions | None = None,
    ) -> dict:
        """Train or resume, evaluate and save; see `fit` and `train_in`.

        `traces` are of units of this data set that the process has trained before.
        """
        keep_freed_memory()
        traces = traces or training.TracedFunctions()
        prepare = functools.partial(self._prepared, checkpoint_seconds, watch, traces)
        try:
            return training.train_in(self.run, self.seed, prepare, tracked)
        except training.NotFinite as error:
            raise InvalidInput(f"{error} {self._describe_batch(error.step)}") from error
        finally:
            traces.release()
            self._inputs.release()

    def _prepared(
        self, checkpoint_seconds: float, watch: Watcher | None, traces: training.TracedFunctions
    ) -> training.Training:
        cost = records.TrainingCost()
        model = whole = self._build_model()
        if self.config.cached_features:
            model = self._above_cut(whole)
            cost = records.TrainingCost()  # without the features, which are computed once for many units
        model.share_traces(traces, (self.config, self.training.num_classes, build.drawing_seed(self.config, self.seed)))
        before = self._untrained_metrics(model)
        figures = ", ".join(f"{name} {100 * before[UNTRAINED][name]:.2f}" for name in TABLE_METRICS)
        write_notice(f"before training, the backbone's average features on the test set: {figures}")
        with model.distribute_strategy.scope():
            start_head(model, self.config, self._inputs, self.training)
            transforms, callbacks, projections = self._training_parts(model)
            taught = teacher_of(model, self.config, self._inputs, self.watched, self.seed)
            batches_per_epoch = self.batches.batches_per_epoch
            regrouping = regrouping_of(model, self.config, self._inputs, self.training, batches_per_epoch, self.seed)
        return training.Training(
            model,
            functools.partial(self._batches_of, model),
            lambda: self._validation_metrics(model),
            self._schedule(checkpoint_seconds),
            functools.partial(update_rule, self.config, model),
            lambda history: self._figures(model, before, projections, taught[1] if taught else None),
            cost,
            gradient_transforms=transforms,
            callbacks=[*callbacks, *(taught or ()), *regrouping, *([projections] if projections is not None else [])],
            description=f"{self.config.name} {unit_label(self.config, self.fold, self.repeat)}",
            deviations=self.dataset.deviations,
            whole=whole,
            watch=watch,
            jit_compile=self.config.jit_compile,
            renews_batches=self._memory is not None,
        )

    def _describe_batch(self, step: int) -> str:
        """Describe a training batch for people: places in the unit, or files."""
        _, indices = next(iter(self.batches.from_step(step)))
        names = indices if self.image_names is None else self.image_names[indices]
        classes = np.unique(self.training.labels[indices])
        return f"That batch was of the classes {', '.join(map(str, classes))}: {', '.join(map(str, names))}."

    def _build_model(self) -> training.EmbeddingModel:
        from common.training.devices import mirrored_strategy, synchronize_batch_normalization

        with mirrored_strategy(self.config.replicas or 1).scope():
            num_classes, num_examples = self.training.num_classes, len(self.training)
            model = build.build_model(self.config, self.dataset, num_classes, self.seed, num_examples)
            inputs, labels = next(iter(self._batches_from(0)))
            model.build_from_batch(inputs, labels)
        if self.config.replicas:
            synchronize_batch_normalization(model)
        return model

    def _above_cut(self, whole: training.EmbeddingModel) -> training.EmbeddingModel:
        """Replace images by features below the cut; return the model above it."""
        place = self.fingerprint, self.places.cache_dir
        self.dataset = features_below_cut(whole, self.config, self.dataset, *place, self.run).dataset
        self._split(self.dataset)
        self._inputs = EvaluationInputs(self.config, self.dataset)
        model = training.model_above_cut(whole)
        model.build_from_batch(*next(iter(self._batches_from(0))))
        return model

    def _batches_of(self, model: training.EmbeddingModel, step: int) -> tf.data.Dataset:
        """Return the batches from a step on, perhaps chosen by the model's present weights."""
        if self._memory is not None:
            self._memory.remember(model.embed(self._inputs(self.training)))
        return self._batches_from(step)

    def _batches_from(self, step: int) -> tf.data.Dataset:
        augmentation = build.build_augmentation(self.config, self.dataset)
        with_places = build.has_places(self.config)
        return data.training_batches(
            self.training, self.batches, augmentation, self.seed, start_step=step, with_places=with_places
        )

    def _untrained_metrics(self, model: training.EmbeddingModel) -> dict[str, dict]:
        """Evaluate the backbone's average features, before training.

        Closed forms of these features are evaluated in the first repeat of each fold alone. Of methods with the same
        untrained network and data, the first computes all.
        """
        path = self.run.path / "untrained.json"
        found = read_json(path) or {}
        if VALIDATED_BEFORE not in found:  # no file, or one of an earlier version
            digest = self._digest_of_features(model)
            others = map(read_json, sorted(path.parents[2].glob(f"*/{path.parent.name}/{path.name}")))
            same = [other for other in others if other and other.get("of") == digest and VALIDATED_BEFORE in other]
            found = same[0] if same else {"of": digest, **self._measured_before(model)}
            write_json(path, found)
        return {name: found[name] for name in (UNTRAINED, CLOSED_FORM, VALIDATED_BEFORE)}

    def _measured_before(self, model: training.EmbeddingModel) -> dict[str, dict]:
        places = [(self.dataset.test, self.dataset.gallery)]
        if self.queries is not self.dataset.test:
            places.append((self.queries, self.gallery))
        evaluated = [self._arrays(model, *place, output="averages") for place in places]
        found = [{UNTRAINED: figures_on_sphere(arrays, self.config.dataset)} for arrays in evaluated]
        closed: list[dict] = [{} for _ in evaluated]
        if not self.repeat:
            closed = closed_form_figures(model, self.config, self._inputs, self.training, evaluated)
        validated = [figures | others for figures, others in zip(found[1:], closed[1:], strict=True)]
        return {**found[0], CLOSED_FORM: closed[0], VALIDATED_BEFORE: validated[0] if validated else {}}

    def _digest_of_features(self, model: training.EmbeddingModel) -> str:
        """Return a digest of all that decides these figures.

        Two networks and preparations of images that agree in each bit of a batch are taken to be the same.
        """
        batch = model.embed(self._inputs(self.dataset.test).take(1), output="averages")
        digest = hashlib.sha256(repr((self.fingerprint, self.config.embedding_dim)).encode())
        names, labels = self.image_names, self.training.labels
        images = self.training.arrays if names is None else np.array([*map(os.fsencode, names.tolist())])
        for array in (batch, labels, images):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _arrays(self, model, queries: Examples, gallery: Examples | None = None, output="embeddings") -> dict:
        return embedded(model, self._inputs, queries, gallery, output)

    def _validation_metrics(self, model) -> dict[str, float]:
        """Evaluate current weights, with NMI and every R@k that tables print."""
        arrays = embedded(model, self._inputs.repeated, self.queries, self.gallery)
        if not self.config.validates_clustering:
            return evaluate_embeddings(arrays).as_dict()
        metrics = evaluate_embeddings(arrays, self.config.dataset).as_dict()
        metrics["NMI"] = normalized_mutual_information(arrays)
        return metrics

    def _schedule(self, checkpoint_seconds: float) -> training.TrainingSchedule:
        config = self.config
        return training.TrainingSchedule(
            max_steps=config.max_steps,
            steps_per_evaluation=config.steps_per_evaluation,
            patience=config.patience,
            warm_up_steps=config.warm_up_steps or config.warm_up_epochs * self.batches.batches_per_epoch,
            warm_up_trains_all=config.warm_up_trains_all,
            plateau_patience=config.plateau_patience,
            monitor=config.monitor,
            selection_start=config.selection_start or 0,
            checkpoint_seconds=checkpoint_seconds,
        )

    def _training_parts(self, model: training.EmbeddingModel) -> tuple[list, list, AlternatingProjections | None]:
        """Return ordered gradient transforms, callbacks, and CCP's (which records the problems)."""
        transforms: list[GradientTransform] = coupled_decay(self.config, model)
        callbacks = perplexity_callbacks(model, self.queries, self._inputs.repeated)
        if self.config.learning_rate_schedule == COSINE:
            callbacks.append(training.LearningRateRecord())
        step, factor = self.config.rate_drop_step, self.config.rate_drop_factor
        if step is not None and factor is not None:
            callbacks.append(training.StepSchedule([step], factor))
        projections = None
        projected = self.config.find(ProjectionSettings)
        if projected:
            augmentation = build.build_augmentation(self.config, self.dataset)
            recorder = snapshot_recorder(self.run.path, lambda: self._arrays(model, self.dataset.test)["queries"])
            on_problem_start = recorder if projected.ccp_keeps_problems else None
            sizes = model.feature_sizes or (None,)  # the proxies are of the first feature
            pools = projected.pools(
                lambda inputs: model.embed(inputs)[:, : sizes[0]], self.training, augmentation, self.seed
            )
            term, projections = projected.training_parts(model, pools, self.config.monitor, on_problem_start)
            transforms = [term, *transforms]
        if self.config.clip_norm:
            transforms.append(training.GradientClipping(self.config.clip_norm, self.config.clip_value))
        return transforms, callbacks, projections

    def _figures(
        self,
        model: training.EmbeddingModel,
        before: dict[str, dict],
        projections: AlternatingProjections | None,
        sampling: milbich_dml.SamplingRecord | None,
    ) -> tuple[dict, dict]:
        """Evaluate a trained model; return its figures and test embeddings."""
        test, gallery = self.dataset.test, self.dataset.gallery
        embeddings = self._arrays(model, test, gallery)
        metrics = evaluate_embeddings(embeddings, self.config.dataset)
        result: dict = {
            "config_hash": self.config_hash,
            "fold": self.fold,
            "repeat": self.repeat,
            "test": metrics.as_dict(),
            **{name: figures for name, figures in before.items() if figures},
            "diagnostics": diagnostics.diagnose(embeddings["queries"], embeddings["query_labels"]).as_dict(),
        }
        result["validation_classes"] = self.queries.num_classes
        if projections is not None:
            result["problems"] = [problem.as_dict() for problem in projections.problems]
        features = feature_figures(self.config, embeddings)
        if features:
            result["features"] = features
        if build.has_places(self.config):
            result["features"][GROUPS] |= group_figures(model, self.training.labels)
        if sampling is not None:
            write_arrays(self.run.path / SAMPLING, sampling.as_arrays())
            result["sampling"] = {"decisions": len(sampling), "watched_images": len(self.watched or ())}
        if "warning" in result["diagnostics"]:
            write_notice(f"warning: test embeddings: {result['diagnostics']['warning']}")
        return result, embeddings


def keep_freed_memory() -> None:
    """Let glibc keep what a step frees.

    It gives large arrays back to the system, which clears each page again: 50,000 page faults a step of
    EfficientNet-lite0. Other C libraries, and whoever sets `MALLOC_MMAP_MAX_`, keep their own ways.
    """
    if "MALLOC_MMAP_MAX_" in os.environ or not sys.platform.startswith("linux"):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_MMAP_MAX, 0)
        set_option(_TRIM_THRESHOLD, 2**31 - 1)


def embedded(
    model: training.EmbeddingModel,
    inputs: Callable[[Examples], tf.data.Dataset],
    queries: Examples,
    gallery: Examples | None = None,
    output: str = "embeddings",
) -> dict[str, np.ndarray]:
    """Embed examples in the format of `evaluate_embeddings` and `test_embeddings.npz`."""

    def embed(examples: Examples) -> np.ndarray:
        return model.embed(inputs(examples), output=output)

    arrays = {"queries": embed(queries), "query_labels": queries.labels}
    if queries.families is not None:
        arrays["query_families"] = queries.families
    if gallery is not None:
        arrays |= {"gallery": embed(gallery), "gallery_labels": gallery.labels}
    return arrays


def normalized_mutual_information(embeddings: dict[str, np.ndarray]) -> float:
    """Compute the NMI of k-means and classes over the queries."""
    return diagnostics.evaluate_clustering(
        embeddings["queries"], embeddings["query_labels"]
    ).normalized_mutual_information


def regrouping_of(
    model: training.EmbeddingModel,
    config: ExperimentConfig,
    inputs: EvaluationInputs,
    examples: Examples,
    batches_per_epoch: int,
    seed: int,
) -> list[milbich_dml.Regrouping]:
    """Group an untrained model's images; return the callback that regroups, if any."""
    groups = config.find(GroupSettings)
    if groups is None:
        return []
    loss = check_given("GroupLabelsLoss", losses.loss_of_kind(model.metric_loss, milbich_dml.GroupLabelsLoss))
    columns = feature_slices(config)[GROUPS]

    def vectors(number: int) -> np.ndarray:
        """Return a vector of each training image, for a round."""
        if groups.group_by == BY_SLICE and number:
            return model.embed(inputs(examples))[:, columns]
        features = model.embed(inputs(examples), output="features")
        return milbich_dml.without_classes(features, examples.labels, _FIRST[groups.group_by])

    regrouping = milbich_dml.Regrouping(loss, vectors, groups.num_groups, groups.group_epochs * batches_per_epoch, seed)
    regrouping.group()
    return [regrouping]


def group_figures(model: training.EmbeddingModel, labels: np.ndarray) -> dict[str, float]:
    """Return the number of image groups and their mean number of classes."""
    loss = check_given("GroupLabelsLoss", losses.loss_of_kind(model.metric_loss, milbich_dml.GroupLabelsLoss))
    groups = np.array(loss.groups)
    return {"groups": len(np.unique(groups)), "classes_per_group": milbich_dml.classes_per_group(groups, labels)}
