import numpy as np
import pytest

from benchmarks import retrieval
from common.retrieval import evaluate_retrieval


@pytest.mark.parametrize("num_gallery", [0, 100])
@pytest.mark.parametrize("peer", ["faiss", "calculator"])
def test_every_peer_computes_the_same(peer, num_gallery):
    if {"faiss": retrieval.faiss, "calculator": retrieval.AccuracyCalculator}[peer] is None:
        pytest.skip(f"the library behind {peer} is not installed")
    embeddings, labels = retrieval.clustered_embeddings(300 + num_gallery, 40, 16, seed=0)
    data = [embeddings[:300], labels[:300]] + ([embeddings[300:], labels[300:]] if num_gallery else [])
    expected = evaluate_retrieval(*data, recall_at=retrieval.RECALL_AT).as_dict()
    found = getattr(retrieval, f"evaluate_with_{peer}")(*data)
    assert {"P@1", "P@R", "MAP@R"} <= set(found)
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-6)
