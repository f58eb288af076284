"""Finished runs of untrained tiny networks, whose stored embeddings are those that their weights give."""

import contextlib

import numpy as np
import tensorflow as tf

from experiments.runs.pooling_weights import image_batches
from experiments.runs.splits import split_of
from experiments.settings import build


def finish_untrained(study, config, fold=0):
    """The folder of a run of an untrained network on a `TinyStudy`."""
    dataset = study.dataset
    training = split_of(dataset, config, fold, 0).training
    model = build.build_model(config, dataset, training.num_classes)
    two = training.subset(np.unique(training.labels, return_index=True)[1][:2])
    model.build_from_batch(next(iter(image_batches(two, config, dataset))), tf.constant(two.labels))
    queries = model.embed(image_batches(dataset.test, config, dataset))
    return study.finish(config, fold, weights=model.get_weights(), queries=queries)


@contextlib.contextmanager
def loaded_as(monkeypatch, dataset):
    """What a command loads by name is this data set."""
    with monkeypatch.context() as patched:
        patched.setattr(build, "load_dataset", lambda *arguments: dataset)
        yield
