import numpy as np
import pytest
import tensorflow as tf

from common.retrieval import evaluate_retrieval
from common.training import InBatchPrecision


def hits_and_queries(labels, embeddings):
    found = evaluate_retrieval(embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True), labels)
    return round(found.precision_at_1 * found.num_queries), found.num_queries


def batch(seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 6, 12), rng.normal(size=(12, 3)).astype(np.float32)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_hits_of_all_batches_over_queries_of_all_batches(shape):
    metric, counts = InBatchPrecision(), []
    for seed in range(4):
        labels, embeddings = batch(seed)
        metric.update_state(labels.reshape(shape), 3.0 * embeddings)
        counts.append(hits_and_queries(labels, embeddings))
    hits, queries = np.sum(counts, axis=0)
    assert 0 < hits < queries < 4 * 12
    assert float(metric.result()) == pytest.approx(hits / queries)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_under_xla_and_in_half_precision():
    metric, (labels, embeddings) = InBatchPrecision(), batch(0)

    @tf.function(jit_compile=True)
    def update(labels, embeddings):
        metric.update_state(labels, embeddings)

    update(tf.constant(labels), tf.cast(embeddings, tf.float16))
    hits, queries = hits_and_queries(labels, embeddings)
    assert float(metric.result()) == pytest.approx(hits / queries)


def test_a_batch_without_pairs_counts_nothing():
    metric = InBatchPrecision()
    metric.update_state(np.arange(3), np.ones((3, 2), np.float32))
    assert float(metric.num_queries) == 0.0
    assert float(metric.result()) == 0.0
