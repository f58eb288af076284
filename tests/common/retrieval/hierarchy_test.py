import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval import evaluate_hierarchy, evaluate_retrieval
from tests.common.retrieval.metrics_test import plain_hierarchical_average_precision, plain_ndcg

FINE = np.random.default_rng(0).integers(0, 9, 50)
LEVELS = np.stack([FINE, FINE // 3, FINE // 6], axis=1)
POINTS = np.random.default_rng(1).integers(-2, 3, (50, 3)).astype(np.float32)  # with ties


@pytest.mark.parametrize("with_gallery", [False, True])
def test_each_level_and_all_at_once_equal_plain_loops(with_gallery):
    gallery = (POINTS[30:] + 0.25, LEVELS[30:]) if with_gallery else ()
    found = evaluate_hierarchy(POINTS, LEVELS, *gallery)
    others, levels = gallery or (POINTS, LEVELS)
    graded = []
    for query, own in enumerate(LEVELS):
        items = [item for item in range(len(others)) if with_gallery or item != query]
        items.sort(key=lambda item: (((POINTS[query] - others[item]) ** 2).sum(), item))
        graded.append([sum(a == b for a, b in zip(own, levels[item])) for item in items])
    graded = [shared for shared in graded if any(shared)]
    assert found.ndcg == pytest.approx(np.mean([plain_ndcg(shared) for shared in graded]), rel=1e-12)
    expected = np.mean([plain_hierarchical_average_precision(shared) for shared in graded])
    assert found.hierarchical_map == pytest.approx(expected, rel=1e-12)
    for level, result in enumerate(found.by_level):
        of_level = (others, levels[:, level]) if with_gallery else ()
        assert result.as_dict() == evaluate_retrieval(POINTS, LEVELS[:, level], *of_level).as_dict()
    assert found.as_dict()["L3 MAP@R"] == found.by_level[2].map_at_r


def test_what_is_no_hierarchy():
    with pytest.raises(InvalidInput, match=r"class 0 of level 1 in \[0, 1\] of level 2"):
        evaluate_hierarchy(POINTS, np.stack([FINE // 5, FINE % 2], axis=1))
    for gallery in ((POINTS, LEVELS[:, :2]), (POINTS, FINE)):
        with pytest.raises(InvalidInput, match="levels: .*as many each"):
            evaluate_hierarchy(POINTS, LEVELS, *gallery)
