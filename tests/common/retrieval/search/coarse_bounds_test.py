import numpy as np
import pytest

from common.retrieval import NeighborSearch
from common.retrieval.search import blocked_search, coarse_bounds
from common.retrieval.search.candidates import Slack
from common.retrieval.search.coarse_bounds import (
    CoarseSide,
    CoarseSlack,
    coarse_widths,
    pattern_limits,
    upper_of_patterns,
)
from common.retrieval.search.similarity_bounds import SimilarityBounds

needs_float32_sums = pytest.mark.skipif(
    not coarse_bounds.sums_are_float32(), reason="TensorFlow adds products of bfloat16 up in bfloat16 here"
)
SCENES = {
    "unit": lambda x: x / np.linalg.norm(x, axis=1, keepdims=True),
    "nearly collapsed": lambda x: 1 + 1e-4 * x,
    "far away": lambda x: 1e3 + x,
    "outlier": lambda x: x * np.where(np.arange(len(x)) == 3, 1e4, 1)[:, np.newaxis],
    "tiny": lambda x: 1e-30 * x,
    "many sizes": lambda x: x * 2.0 ** np.linspace(-40, 3, len(x))[:, np.newaxis],
    "duplicates": lambda x: np.repeat(x[::4], 4, axis=0)[: len(x)],
}


def sides_of(queries, gallery):
    """Coarse queries and gallery, the slack of the first ones, and all exact similarities in the unit of the bounds."""
    bounds = SimilarityBounds(queries, gallery, "euclidean")
    found = []
    for embeddings in (queries, gallery):
        factors = bounds.factors(embeddings, np.arange(len(embeddings)), np.float32)
        side = CoarseSide([slice(0, len(embeddings))], embeddings.shape[1])
        side.measure(0, factors.as_columns)
        found.append((side, factors))
    (left, of_left), (right, of_right) = found
    slack = Slack(of_left.radius, of_left.margin, of_right.radius, of_right.margin)
    widths = coarse_widths(left, np.stack(of_left[1:]), right, np.stack(of_right[1:]))
    coarse = CoarseSlack(Slack(*widths[0], *widths[1]), left.factors, right.factors)
    differences = queries.astype(np.float64)[:, np.newaxis] - gallery.astype(np.float64)
    exact = -0.5 * ((bounds.unit * differences / bounds.scale) ** 2).sum(axis=2)
    return left, right, coarse, slack, exact


def test_widths_hold_what_float32_sums_lose_of_rows_that_bfloat16_keeps():
    vectors = np.random.default_rng(0).integers(129, 255, (40, 512)).astype(np.float32)
    bounds = coarse_bounds.CoarseBounds(np.concatenate([vectors, np.zeros((40, 3), np.float32)], axis=1))
    products = vectors[:20] * vectors[20:]
    lost = products.cumsum(axis=1, dtype=np.float32)[:, -1] - products.sum(axis=1, dtype=np.float64)
    assert np.abs(lost).max() > 0
    assert (np.abs(lost) <= bounds.width[:20] * bounds.length[20:]).all()


@needs_float32_sums
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("dim", [1, 7, 128, 700])
def test_no_pair_is_dismissed_at_its_own_similarity(scene, dim):
    rng = np.random.default_rng(dim)
    queries, gallery = (SCENES[scene](rng.standard_normal((60, dim))).astype(np.float32) for _ in range(2))
    gallery[:5] = queries[:5]
    left, right, coarse, slack, exact = sides_of(queries, gallery)
    patterns = right.bounds[0].patterns(left.bounds[0]).T  # [queries, gallery]
    rounded = exact.astype(np.float32)
    thresholds = np.where(rounded > exact, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    assert (patterns < pattern_limits(thresholds)).all()
    query, item = np.indices(exact.shape).reshape(2, -1)
    lower = coarse.lower(query, item, upper_of_patterns(patterns.ravel()))
    assert (lower <= exact.ravel()).all()
    upper = coarse.float32_upper(query, item)
    assert (upper >= exact.ravel()).all()
    assert (slack.lower(query, item, upper) <= exact.ravel()).all()


def test_limits_of_patterns_compare_as_the_numbers_do():
    rng = np.random.default_rng(0)
    numbers = np.arange(2**16, dtype=np.uint16)
    values = upper_of_patterns(numbers)
    is_number = ~np.isnan(values)
    edges = np.float32([-np.inf, -3e38, -1.0, -1e-30, -1e-44, -0.0, 0.0])
    drawn = -np.exp(rng.uniform(-60, 60, 40)).astype(np.float32)
    for threshold in [*edges, *drawn]:
        floor = values[is_number & (values <= threshold)].max()  # the largest bfloat16 number up to the threshold
        limit = pattern_limits(np.float32([threshold]))[0]
        np.testing.assert_array_equal(
            (numbers < limit)[is_number], (values >= floor)[is_number], err_msg=str(threshold)
        )
    assert not (numbers < pattern_limits(np.float32([np.inf]))[0]).any()


@pytest.fixture
def counted(monkeypatch):
    """Counts coarse tiles and float32 tiles of a search that is coarse on any processor."""
    counts = {"coarse": 0, "float32": 0}
    patterns, upper_bounds = coarse_bounds.CoarseBounds.patterns, blocked_search.upper_bounds

    def counted_patterns(*arguments):
        counts["coarse"] += 1
        return patterns(*arguments)

    def counted_bounds(*arguments):
        counts["float32"] += 1
        return upper_bounds(*arguments)

    monkeypatch.setattr(coarse_bounds.CoarseBounds, "patterns", counted_patterns)
    monkeypatch.setattr(blocked_search, "upper_bounds", counted_bounds)
    monkeypatch.setattr(blocked_search, "is_fast", lambda: True)
    return counts


def classes_around_centers(num_classes, spread, dim=24):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(num_classes), 6)
    centers = rng.standard_normal((num_classes, dim))
    return (centers[labels] + spread * rng.standard_normal((len(labels), dim))).astype(np.float32), labels


def neighbors_of(queries, gallery, **options):
    found = np.full((len(queries), 6), -1)

    def keep(rows, items):
        found[rows] = items

    search = NeighborSearch(queries, gallery, **{"block_size": 64, "num_threads": 2, **options})
    search.visit(np.full(len(queries), 6), keep)
    return found


@needs_float32_sums
@pytest.mark.parametrize(("with_gallery", "spread"), [(False, 1e-4), (True, 0.4)])
def test_neighbors_are_those_of_float32_tiles(with_gallery, spread, counted, monkeypatch):
    monkeypatch.setattr(blocked_search, "_SPARSE", 1.0)
    embeddings, _ = classes_around_centers(250, spread)
    parts = (embeddings[:470], embeddings[470:]) if with_gallery else (embeddings, None)
    found = neighbors_of(*parts)
    assert counted["coarse"] > 20
    monkeypatch.setattr(blocked_search, "is_fast", lambda: False)
    monkeypatch.setattr(coarse_bounds.CoarseBounds, "patterns", None)
    np.testing.assert_array_equal(found, neighbors_of(*parts))


@needs_float32_sums
def test_tiles_that_leave_too_much_open_are_float32(counted):
    """Beside an outlier all others are one point to eight bits: the first tile of each task shows it."""
    embeddings, _ = classes_around_centers(250, 0.4)
    embeddings[0] *= 1e4
    found = neighbors_of(embeddings, None)
    homes = 24
    tasks = sum(-(-others // 16) for others in range(homes))  # of a row's other tiles, sixteen at most
    assert counted["coarse"] == tasks
    assert counted["float32"] == homes + homes * (homes - 1) // 2
    distance = ((embeddings[::50, np.newaxis].astype(np.float64) - embeddings) ** 2).sum(axis=2)
    distance[np.arange(len(distance)), np.arange(len(distance)) * 50] = np.inf
    np.testing.assert_array_equal(found[::50], np.argsort(distance, axis=1, kind="stable")[:, :6])
