import numpy as np
import pytest

from common.diagnostics.posterior_refinement import (
    NORMALIZATIONS,
    bilinear_embeddings,
    diagonal_restraint,
    matrix_properties,
    metric_matrix,
    principal_axes,
    random_axes,
    random_restraint,
    refine,
)
from common.errors import InvalidInput
from common.retrieval import evaluate_retrieval

RATIOS = (0.0, 0.1, 0.35, 0.5, 0.9, 1.0)


def random_neck(seed, channels=24, dim=7):
    return np.random.default_rng(seed).normal(size=(channels, dim)) * np.linspace(0.2, 2, channels)[:, None]


def off_diagonal(matrix):
    return matrix - np.diag(np.diag(matrix))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("ratio", RATIOS)
def test_the_diagonal_restraint_meets_its_definition(seed, ratio):
    matrix = metric_matrix(random_neck(seed))
    refined = diagonal_restraint(matrix, ratio, seed)
    np.testing.assert_array_equal(refined, refined.T)
    np.testing.assert_array_equal(off_diagonal(refined), off_diagonal(matrix))
    kept, original = np.diag(refined), np.diag(matrix)
    np.testing.assert_array_equal(kept[kept != 0], original[kept != 0])
    assert kept.sum() <= (1 - ratio) * original.sum() + 1e-12
    removed = np.flatnonzero(kept == 0)
    # It stops as soon as it may: with the entry that went last, the trace was still too large.
    assert len(removed) == 0 or any(kept.sum() + original[i] > (1 - ratio) * original.sum() for i in removed)
    assert (ratio == 0) == (len(removed) == 0)
    assert ratio < 1 or len(removed) == len(matrix)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("ratio", RATIOS)
def test_the_random_restraint_meets_its_definition(seed, ratio):
    matrix = metric_matrix(random_neck(seed))
    refined = random_restraint(matrix, ratio, seed)
    np.testing.assert_array_equal(refined, refined.T)
    np.testing.assert_array_equal(np.diag(refined), np.diag(matrix))
    is_removed = (refined == 0) & (matrix != 0)
    np.testing.assert_array_equal(refined[~is_removed], matrix[~is_removed])
    norm, bound = np.linalg.norm(off_diagonal(refined)), (1 - ratio) * np.linalg.norm(off_diagonal(matrix))
    assert norm <= bound + 1e-12
    one_back = np.sqrt(norm**2 + 2 * matrix[is_removed] ** 2)
    assert not is_removed.any() or one_back.max() > bound
    assert (ratio == 0) == (not is_removed.any())
    assert ratio < 1 or norm == 0


def test_properties_of_matrices():
    matrix = metric_matrix(random_neck(0))
    found = matrix_properties(matrix)
    assert found.trace == pytest.approx(np.trace(matrix))
    assert found.rank == 7
    assert found.frobenius_norm == pytest.approx(np.sqrt((matrix**2).sum()))
    assert found.smallest_eigenvalue == pytest.approx(0, abs=1e-9)
    np.testing.assert_array_equal(refine(matrix, "identity", 0.3), np.eye(24))
    assert matrix_properties(np.eye(24))[:2] == (24, pytest.approx(np.sqrt(24)))
    assert matrix_properties(diagonal_restraint(matrix, 0.5)).smallest_eigenvalue < -0.1
    assert matrix_properties(np.zeros((3, 3))).rank == 0


@pytest.mark.parametrize("restraint", ["D", "R"])
def test_the_seed_decides(restraint):
    matrix = metric_matrix(random_neck(1))
    before = matrix.copy()
    np.testing.assert_array_equal(refine(matrix, restraint, 0.4, 3), refine(matrix, restraint, 0.4, 3))
    assert (refine(matrix, restraint, 0.4, 3) != refine(matrix, restraint, 0.4, 4)).any()
    np.testing.assert_array_equal(matrix, before)
    counts = sum(refine(matrix, restraint, 0.5, seed) == 0 for seed in range(200))
    touched = np.diag(counts) if restraint == "D" else counts[np.triu_indices(24, 1)]
    assert touched.min() > 40
    assert touched.max() < 200


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_the_trained_matrix_ranks_as_the_embeddings_do(normalization):
    rng = np.random.default_rng(0)
    features, labels, neck = rng.gamma(1.0, size=(60, 24)), rng.integers(0, 6, 60), random_neck(3)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    embeddings = (features / lengths if normalization == "features" else features) @ neck
    if normalization == "metric":
        embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    expected = evaluate_retrieval(embeddings, labels, similarity="inner_product").as_dict()
    queries, gallery = bilinear_embeddings(features, metric_matrix(neck), normalization)
    np.testing.assert_allclose(queries @ gallery.T, embeddings @ embeddings.T, rtol=1e-9, atol=1e-9)
    found = evaluate_retrieval(queries, labels, gallery, labels, similarity="inner_product", exclude_same_row=True)
    assert found.as_dict() == expected


def test_an_indefinite_matrix_is_normalised_to_products_within_one():
    features = np.append(np.random.default_rng(0).normal(size=(50, 24)), np.zeros((1, 24)), axis=0)
    matrix = refine(metric_matrix(random_neck(4)), "D", 1.0)
    queries, gallery = bilinear_embeddings(features, matrix)
    products = queries @ gallery.T
    lengths = np.sqrt(np.einsum("ic,cd,id->i", features, _absolute(matrix), features))
    expected = features @ matrix @ features.T / np.maximum(np.outer(lengths, lengths), 1e-30)
    np.testing.assert_allclose(products, expected, atol=1e-9)
    assert np.abs(products).max() <= 1 + 1e-9
    assert (np.diag(products) < 0).any()
    np.testing.assert_array_equal(products[-1], 0)


def _absolute(matrix):
    left, values, _ = np.linalg.svd(matrix)
    return left @ np.diag(values) @ left.T


def test_no_axis_is_drawn_where_nothing_varies():
    """Two of five items are equal: three axes, and a fourth that rounding would choose."""
    features = np.random.default_rng(0).normal(size=(5, 12))
    features[4] = features[3]
    axes = principal_axes(features, 4)
    np.testing.assert_array_equal(axes[:, 3], 0)
    np.testing.assert_allclose(axes[:, :3].T @ axes[:, :3], np.eye(3), atol=1e-12)


def test_the_controls_are_identities_of_the_embeddings_size():
    rng = np.random.default_rng(0)
    spread = np.diag([5.0, 3.0, 0.1, 0.1]) @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    features = 100 + rng.normal(size=(500, 4)) @ spread
    axes = principal_axes(features, 2)
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-12)
    assert np.linalg.norm(spread @ axes) == pytest.approx(np.sqrt(34), rel=0.05)  # centred: the mean is no direction
    drawn = random_axes(24, 7, seed=1)
    np.testing.assert_allclose(drawn.T @ drawn, np.eye(7), atol=1e-12)
    assert (drawn != random_axes(24, 7, seed=2)).any()
    assert matrix_properties(metric_matrix(drawn)).rank == 7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: refine(m, "diagonal"), "restraint: received 'diagonal', expected one of D, R, identity"),
        (lambda m: refine(m, "D", 1.1), r"ratio: received 1.1, expected a number in \[0, 1\]"),
        (lambda m: refine(m, "R", -0.1), r"ratio: received -0.1"),
        (lambda m: refine(m[1:], "R"), "square matrix"),
        (lambda m: refine(m + np.triu(m), "D"), "not symmetric"),
        (lambda m: refine(-m, "D"), "non-negative diagonal"),
        (lambda m: bilinear_embeddings(np.ones((3, 5)), m), r"features.*24 channels"),
        (lambda m: bilinear_embeddings(np.ones((3, 24)), m, "unit"), "normalization: received 'unit'"),
        (lambda m: principal_axes(np.ones((3, 5)), 3), "dim: received 3, expected 1 to 2, with 3 items of 5 channels"),
        (lambda m: random_axes(5, 6), "dim: received 6, expected 1 to 5"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InvalidInput, match=message):
        call(metric_matrix(random_neck(0)))
