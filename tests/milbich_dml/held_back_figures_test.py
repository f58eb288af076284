import numpy as np

from common.diagnostics import class_distances, evaluate_clustering
from common.retrieval import evaluate_retrieval
from milbich_dml import held_back_figures


def test_figures_are_those_of_retrieval_clusters_and_distances():
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 4
    embeddings = (np.eye(4)[labels] + 0.6 * rng.normal(size=(24, 4))).astype(np.float32)
    figures = held_back_figures(embeddings, labels, (1, 3), seed=2)
    assert list(figures) == ["R@1", "R@3", "NMI", "pi_intra", "pi_inter"]
    result = evaluate_retrieval(embeddings, labels, recall_at=(1, 3))
    assert [figures["R@1"], figures["R@3"]] == [result.precision_at_1, result.recall_at[3]]
    assert figures["NMI"] == evaluate_clustering(embeddings, labels, seed=2).normalized_mutual_information
    assert (figures["pi_intra"], figures["pi_inter"]) == tuple(class_distances(embeddings, labels, "code"))
