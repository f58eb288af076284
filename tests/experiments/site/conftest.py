"""Studies of drawn embeddings, shared by the tests of a report's pages."""

import pytest

from tests.experiments.tiny_study import TinyStudy


@pytest.fixture(scope="module")
def tiny_study(tmp_path_factory):
    """Three methods of two folds: two complete, one with a run that is not finished."""
    study = TinyStudy(tmp_path_factory.mktemp("study") / "runs")
    average, contrastive = study.config("pnca", "gap"), study.config("c2", "gap")
    pooled = study.config("pnca", "gsp", num_prototypes=4, gsp_memory_size=8)
    study.gsp_path = study.finish(pooled, 0, noise=0.2, weights=study.gsp_weights(pooled))
    study.finish(pooled, 1, noise=0.2)
    for fold in (0, 1):
        study.finish(average, fold, noise=0.6)
    study.finish(contrastive, 0)
    study.begin(contrastive, 1)
    return study


@pytest.fixture
def empty_study(tmp_path):
    """A study without a run yet."""
    return TinyStudy(tmp_path)
