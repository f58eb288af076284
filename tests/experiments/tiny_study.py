"""A study as `fair_eval` leaves it, without training: run directories of drawn embeddings on a tiny data set."""

import numpy as np
import tensorflow as tf

from common.errors import InvalidInput
from common.records import RunDirectory
from common.retrieval import evaluate_retrieval
from experiments.recipes import resolve
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.places import Places
from experiments.settings.splits import split_of
from gsp_dml.perplexity_callback import pooled_features
from tests.experiments.patterned_images import noisy_pictures
from tests.experiments.written_results import finished_result

OVERRIDES = {
    "embedding_dim": 8,
    "image_size": 16,
    "classes_per_batch": 4,
    "samples_per_class": 2,
    "max_steps": 100,
}
EVALUATIONS = (20, 40, 60)
METRICS = {"R@1": 0.5, "R@2": 0.6, "R@4": 0.7, "NMI": 0.4}


class TinyStudy:
    """Writes run directories; stands in for `DataFolder` when pages are written."""

    cache_dir = None

    def __init__(self, folder):
        self.folder, self.has_data = folder, True
        names = [f"<letter & {index}>" for index in range(14)]
        self.dataset = noisy_pictures("glyphs", 8, 6, noise=60, copies=5, class_names=names)
        self.runs = UnitRuns(self.dataset, Places(str(folder)))

    def dataset_of(self, row):
        if not self.has_data:
            raise InvalidInput("glyphs cannot be read: the disk is away.")
        return self.dataset

    def config(self, loss, pooling, protocol=None, **overrides):
        values = {**OVERRIDES, **({} if protocol else {"num_folds": 2}), **overrides}
        return resolve("glyphs", loss, pooling, "thesis", "smoke", values, "plain", protocol)

    def begin(self, config, fold=0, repeat=0) -> RunDirectory:
        identity = {**config.identity(self.runs.fingerprint), "fold": fold, "repeat": repeat}
        run = RunDirectory(self.runs.unit_dir(config, fold, repeat), identity)
        for place, step in enumerate(EVALUATIONS):
            value = 0.2 + 0.1 * place + 0.02 * fold
            run.append_metrics({"step": step, "validation": {**METRICS, "MAP@R": value, "P@1": value + 0.2}})
        return run

    def finish(self, config, fold=0, repeat=0, noise=0.5, weights=(), queries=None):
        run = self.begin(config, fold, repeat)
        generator = np.random.default_rng([fold, repeat])
        labels = self.dataset.test.labels
        if queries is None:
            queries = np.eye(8)[labels - 8] + noise * generator.normal(size=(len(labels), 8))
        metrics = evaluate_retrieval(queries, labels).as_dict()
        result = finished_result(metrics, fold, repeat, config.hash(self.runs.fingerprint)) | {
            "untrained": {**metrics, "P@1": 0.25, "MAP@R": 0.125},
            "validation": {"best": {"MAP@R": 0.4, "step": 60}},
            "steps": 60,
            "train_seconds": 90.0,
            "deviations": [],
            "diagnostics": {"rho": 0.25, "uniformity": -1.5, "warning": "all embeddings <are> one point"},
        }
        run.write_result(result, {"queries": queries.astype(np.float32), "query_labels": labels}, list(weights))
        return run.path

    def gsp_weights(self, config):
        """Weights of a model whose prototypes have been chosen, as training does."""
        training = split_of(self.dataset, config, 0, 0).training
        model = build.build_model(config, self.dataset, training.num_classes)
        images = next(iter(build.build_inputs(config, self.dataset)(training)))
        model.build_from_batch(images[:8], tf.constant(training.labels[:8]))
        features, _ = pooled_features(model, images)
        model.head.pooling.collect(features)
        assert bool(model.head.pooling.has_prototypes())
        return model.get_weights()
