"""Finished runs of untrained tiny networks, whose stored embeddings are those that their weights give."""

import contextlib

import numpy as np
import tensorflow as tf

from experiments.settings import build
from experiments.settings.splits import split_of


def finish_untrained(study, config, fold=0):
    """The folder of a run of an untrained network on a `TinyStudy`."""
    dataset = study.dataset
    training = split_of(dataset, config, fold, 0).training
    model = build.build_model(config, dataset, training.num_classes)
    two = training.subset(np.unique(training.labels, return_index=True)[1][:2])
    inputs = build.build_inputs(config, dataset)
    model.build_from_batch(next(iter(inputs(two))), tf.constant(two.labels))
    queries = model.embed(inputs(dataset.test))
    return study.finish(config, fold, weights=model.get_weights(), queries=queries)


@contextlib.contextmanager
def loaded_as(monkeypatch, dataset):
    """What a command loads by name is this data set."""
    with monkeypatch.context() as patched:
        patched.setattr(build, "load_dataset", lambda *_, **__: dataset)
        yield
