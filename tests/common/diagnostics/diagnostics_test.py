import itertools
import json

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from common.diagnostics import evaluate_clustering
from common.diagnostics.class_geometry import alignment, class_covering_radii, class_distances, uniformity
from common.diagnostics.diagnostic_names import NAMES
from common.diagnostics.diagnostics import collapse_warning, diagnose, generalization_gap
from common.diagnostics.spectral_decay import spectral_decay, spectrum
from common.errors import InvalidInput

# Two classes on the circle: at 0 and 60 degrees, and at 180 degrees twice and 240 degrees; one item alone at 90.
DEGREES = np.deg2rad([0, 60, 180, 180, 240, 90])
POINTS = np.stack([np.cos(DEGREES), np.sin(DEGREES)], axis=1)
LABELS = np.array([7, 7, 3, 3, 3, 9])


def test_pi_of_the_published_code():
    found = class_distances(POINTS, LABELS, "code")
    # Inside: class 7 has one pair at 1 - cos 60; class 3 has pairs at 0, 60 and 60 degrees. Mean of the two classes.
    assert found.intra == pytest.approx((1 / 2 + (0 + 1 / 2 + 1 / 2) / 3) / 2)
    # Means of length one stand at 30 degrees, at atan(-sqrt 3 / 5) + 180, and at 90.
    third = np.pi + np.arctan2(np.sqrt(3), 5)
    between = [1 - np.cos(a - b) for a, b in itertools.combinations([np.pi / 6, third, np.pi / 2], 2)]
    assert found.inter == pytest.approx(np.mean(between))
    assert found.ratio == pytest.approx(found.intra / found.inter)


@pytest.mark.parametrize("seed", range(3))
def test_random_classes_equal_scipy(seed, monkeypatch):
    monkeypatch.setattr("common.diagnostics.class_geometry._PAIRS_AT_ONCE", 50)
    rng = np.random.default_rng(seed)
    embeddings, labels = rng.normal(size=(30, 4)).astype(np.float32), rng.integers(0, 5, 30) + 2**60
    unit = embeddings / np.linalg.norm(embeddings.astype(np.float64), axis=1, keepdims=True)
    distances = pdist(unit)
    intra = distances[(labels[:, np.newaxis] == labels)[np.triu_indices(30, 1)]]
    assert class_distances(embeddings, labels, "print").intra == pytest.approx(np.mean(intra))
    assert alignment(embeddings, labels) == pytest.approx(np.mean(np.square(intra)))
    assert uniformity(embeddings) == pytest.approx(np.log(np.mean(np.exp(-2 * distances**2))))
    means = np.stack([unit[labels == label].mean(axis=0) for label in np.unique(labels)])
    assert class_distances(embeddings, labels, "print").inter == pytest.approx(np.mean(pdist(means)))


def test_covering_radii_of_classes_on_a_line():
    points = np.array([[0.0], [10], [4], [1], [5], [5], [8]])
    labels = np.array([1, 1, 1, 1, 0, 0, 2])
    # Class 1: centers 0, 10, 4, 1 in this order leave 10, 4, 1 and 0; class 0: copies; class 2: alone.
    np.testing.assert_allclose(class_covering_radii(points, labels, 1), [0, 10, 0])
    np.testing.assert_allclose(class_covering_radii(points, labels, 2), [0, 4, 0])
    np.testing.assert_allclose(class_covering_radii(points, labels, 9), [0, 0, 0])
    np.testing.assert_allclose(class_covering_radii(points, labels), [0, (10 + 4 + 1 + 0) / 4, 0])
    # Of class 1 the first, second and last item: 0 and 10 leave 1.
    np.testing.assert_allclose(class_covering_radii(points, labels, 2, max_items=3), [0, 1, 0])


def test_uniformity_and_alignment_at_the_ends():
    collapsed = np.tile([[0.0, 2.0]], (5, 1))
    assert uniformity(collapsed) == pytest.approx(0, abs=1e-12)
    assert alignment(collapsed, np.zeros(5, int)) == pytest.approx(0, abs=1e-12)
    opposite = np.float32([[1, 0], [-5, 0]])
    assert uniformity(opposite, temperature=3.0) == pytest.approx(-12)
    assert alignment(opposite, [1, 1]) == pytest.approx(4)
    rng = np.random.default_rng(0)
    many = rng.normal(size=(3000, 64))
    assert uniformity(many) == pytest.approx(-4, abs=0.15)
    sampled = uniformity(many, max_items=500)
    assert sampled == pytest.approx(uniformity(many), abs=0.02)
    assert sampled != uniformity(many, max_items=500, seed=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: class_distances(POINTS, LABELS, "paper"), "convention: received 'paper', expected one of code, print"),
        (lambda: class_distances(POINTS, np.arange(6)), "no class of two items"),
        (lambda: class_distances(POINTS, np.zeros(6, int)), "no two classes"),
        (lambda: class_distances(POINTS * np.inf, LABELS), "NaN or infinity"),
        (lambda: alignment(POINTS, np.arange(6)), "no class of two items"),
        (lambda: alignment(POINTS, LABELS[1:]), "labels"),
        (lambda: uniformity(POINTS[:1]), "a single one"),
        (lambda: uniformity(POINTS, temperature=0), "temperature"),
        (lambda: class_covering_radii(POINTS, LABELS, 0), "num_centers"),
        (lambda: class_covering_radii(POINTS, LABELS, max_items=0), "max_items"),
        (lambda: spectral_decay(np.ones((3, 2)), skip_top=2), "skip_top: received 2, expected less than 2"),
        (lambda: spectral_decay(np.ones((3, 2)), skip_top=-1), "skip_top: received -1"),
        (lambda: spectral_decay(np.float32([[1, np.nan]])), "NaN or infinity in row 0"),
        (lambda: spectral_decay(np.ones((3, 2)), direction="both"), "direction: received 'both'"),
        (lambda: spectral_decay(np.ones((3, 2)), floor=0.0), "floor: received 0.0, expected a number greater than 0"),
    ],
)
def test_bad_input_is_named(call, message):
    with np.errstate(invalid="ignore"), pytest.raises(InvalidInput, match=message):
        call()


def blobs(seed=0, spread=0.01):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(6), 10)
    return (rng.standard_normal((6, 4))[labels] + spread * rng.standard_normal((60, 4))).astype(np.float32), labels


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_separated_classes_agree_whatever_their_names(dtype):
    embeddings, labels = blobs()
    for names in (labels, 5 - labels, labels + 2**60):
        agreement = evaluate_clustering(embeddings.astype(dtype), names)
        assert agreement.as_dict() == pytest.approx({"AMI": 1.0, "NMI": 1.0})
        assert agreement.num_clusters == 6
    assert evaluate_clustering(np.ones((60, 3), dtype), labels).as_dict() == {"AMI": 0.0, "NMI": 0.0}


def test_the_seed_decides():
    embeddings, labels = blobs(spread=1.0)
    same = [evaluate_clustering(embeddings, labels, seed=3) for _ in range(2)]
    assert same[0] == same[1]
    assert len({evaluate_clustering(embeddings, labels, seed=seed) for seed in range(5)}) > 1
    for seed in (-1, 2**32):  # scikit-learn does not take it
        with pytest.raises(InvalidInput, match=f"seed: received {seed}, expected a number from 0 to 4294967295"):
            evaluate_clustering(embeddings, labels, seed=seed)


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e-25), (np.float32, 1e20), (np.float64, 1e-310)])
def test_the_scale_of_embeddings_changes_nothing(dtype, scale):
    embeddings, labels = blobs(spread=1.0)
    expected = evaluate_clustering(embeddings.astype(dtype), labels)
    power = 2.0 ** round(np.log2(scale))  # which changes no digit, as long as there is no subnormal number
    scaled = evaluate_clustering((embeddings.astype(np.float64) * power).astype(dtype), labels)
    assert expected.normalized_mutual_information > 0.3
    if scale > 1e-300:
        assert scaled == expected
    else:
        assert scaled.as_dict() == pytest.approx(expected.as_dict(), abs=0.1)


def with_spectrum(values, num_items=40, seed=0):
    """Embeddings with these singular values."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(num_items, len(values))))[0]
    right = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    return left @ np.diag(values) @ right


def test_the_spectrum_is_recovered():
    np.testing.assert_allclose(spectrum(with_spectrum([4.0, 2.0, 1.0, 1.0])), [0.5, 0.25, 0.125, 0.125])
    np.testing.assert_allclose(spectrum(with_spectrum([4.0, 2.0, 1.0, 1.0]), skip_top=1), [0.5, 0.25, 0.25])
    np.testing.assert_allclose(spectrum(np.float32([[3, 0, 0], [0, 1, 0]])), [0.75, 0.25, 0])  # fewer items than dims
    np.testing.assert_array_equal(spectrum(np.zeros((5, 3))), 0)


def test_rho_equals_the_formula():
    # KL(U || S) = -log 4 - (log 1/2 + log 1/4 + 2 log 1/8) / 4 = -2 log 2 + 9/4 log 2
    embeddings = with_spectrum([4.0, 2.0, 1.0, 1.0])
    assert spectral_decay(embeddings) == pytest.approx(np.log(2) / 4)
    # KL(S || U) = 1/2 log 2 + 1/4 log 1 + 1/4 log 1/2
    assert spectral_decay(embeddings, direction="spectrum_to_uniform") == pytest.approx(np.log(2) / 4)
    # Without the largest: -log 3 - (log 1/2 + 2 log 1/4) / 3
    assert spectral_decay(embeddings, skip_top=1) == pytest.approx(-np.log(3) + 5 / 3 * np.log(2))


def test_isotropic_half_rank_and_collapsed_embeddings():
    assert spectral_decay(with_spectrum([1.0] * 8)) == pytest.approx(0, abs=1e-12)
    assert spectral_decay(np.random.default_rng(0).normal(size=(5000, 128))) == pytest.approx(0.003, abs=2e-3)
    half = with_spectrum([1.0] * 4 + [0.0] * 4)
    assert spectral_decay(half) == pytest.approx(-np.log(8) - (np.log(1 / 4) + np.log(1e-12)) / 2)
    assert spectral_decay(half, direction="spectrum_to_uniform") == pytest.approx(np.log(2))
    point = np.tile(np.float32([0.6, 0.8, 0, 0]), (30, 1))
    assert spectral_decay(point) == pytest.approx(-np.log(4) - 3 / 4 * np.log(1e-12))
    assert spectral_decay(point, direction="spectrum_to_uniform") == pytest.approx(np.log(4))
    assert spectral_decay(half) < spectral_decay(with_spectrum([1.0] + [0.0] * 7))
    weak, empty = with_spectrum([1.0, 1e-9]), with_spectrum([1.0, 0.0])  # a direction a billionth as strong, and none
    assert spectral_decay(weak) == pytest.approx(-np.log(2) - np.log(1e-9) / 2, rel=1e-4)
    assert spectral_decay(empty) > spectral_decay(weak) + 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_empty_directions_stay_empty_in_low_precision(dtype):
    rng = np.random.default_rng(0)
    half = (rng.normal(size=(2000, 4)) @ rng.normal(size=(4, 8))).astype(dtype)
    assert spectrum(half)[3] > 0.05
    np.testing.assert_array_equal(spectrum(half)[4:], 0)
    exact = (half.astype(np.float64) @ np.linalg.pinv(half.astype(np.float64), rcond=1e-2)) @ half.astype(np.float64)
    assert spectral_decay(half) == pytest.approx(spectral_decay(exact), rel=1e-3)


def test_only_centring_takes_the_mean_away():
    embeddings = with_spectrum([1.0, 1.0, 1.0]) - with_spectrum([1.0, 1.0, 1.0]).mean(axis=0)
    shifted = embeddings + 50
    assert spectral_decay(shifted, centre=True) == pytest.approx(spectral_decay(embeddings), abs=1e-9)
    assert spectral_decay(shifted) > 1
    assert spectral_decay(3 * shifted) == pytest.approx(spectral_decay(shifted))


def clustered(noise, num_classes=6, copies=8, dim=5, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(num_classes), copies)
    return rng.normal(size=(num_classes, dim))[labels] + noise * rng.normal(size=(len(labels), dim)), labels


def test_the_record_holds_every_diagnostic():
    embeddings, labels = clustered(0.4)
    found = diagnose(embeddings, labels, clustering=True)
    assert list(found.figures) == list(NAMES)
    code, printed = (class_distances(embeddings, labels, name) for name in ("code", "print"))
    assert found.figures == {
        "rho": spectral_decay(embeddings),
        "rho@2": spectral_decay(embeddings, skip_top=1),
        "pi_intra": code.intra,
        "pi_inter": code.inter,
        "pi_ratio": code.ratio,
        "pi_intra_print": printed.intra,
        "pi_inter_print": printed.inter,
        "pi_ratio_print": printed.ratio,
        "covering_radius": class_covering_radii(embeddings, labels).mean(),
        "alignment": alignment(embeddings, labels),
        "uniformity": uniformity(embeddings),
        "NMI": evaluate_clustering(embeddings, labels).normalized_mutual_information,
    }
    assert found.warning is None
    assert "NMI" not in diagnose(embeddings, labels).figures
    alone = diagnose(embeddings, np.arange(len(labels))).figures  # no two items of a class
    assert list(alone) == ["rho", "rho@2", "covering_radius", "uniformity"]
    stored = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert stored["rho"] == pytest.approx(found.figures["rho"], rel=1e-7)
    assert "warning" not in stored


def test_the_seed_chooses_what_uniformity_looks_at(monkeypatch):
    monkeypatch.setitem(uniformity.__kwdefaults__, "max_items", 10)
    embeddings, labels = clustered(0.4)
    first, second = (diagnose(embeddings, labels, seed=seed).figures["uniformity"] for seed in (0, 1))
    assert first == uniformity(embeddings, seed=0) != second == uniformity(embeddings, seed=1)


def test_collapsed_embeddings_are_diagnosed_and_warned_of():
    labels = np.repeat(np.arange(4), 5)
    found = diagnose(np.ones((20, 3), np.float32), labels)
    assert "pi_ratio" not in found.figures  # infinite, and JSON has no word for it
    assert "collapsed to a point" in found.as_dict()["warning"]
    assert found.figures["uniformity"] == pytest.approx(0, abs=1e-9)


def test_each_kind_of_collapse_is_named():
    rng = np.random.default_rng(0)
    spread = rng.normal(size=(50, 6))
    assert collapse_warning(spread) is None
    assert collapse_warning(100 + 0.01 * spread) == (
        "The embeddings have collapsed to a point: they lie within "
        f"{np.sqrt(((0.01 * (spread - spread.mean(0))) ** 2).sum(1).mean()):.2g} of it, at length 2.4e+02."
    )
    assert "Only 20 % of the embeddings are distinct" in collapse_warning(np.repeat(spread[:10], 5, axis=0))
    line = rng.normal(size=(50, 1)) * np.ones((1, 6)) + 1e-3 * spread
    assert "collapsed to a line: one direction holds 100.00 %" in collapse_warning(line)
    assert collapse_warning(rng.normal(size=(50, 1))) is None  # one dimension is no collapse
    assert "point" in collapse_warning(np.zeros((4, 2)))
    embeddings = 1 + 0.0005 * rng.normal(size=(20, 1024))  # spread .016 at length 32, which counts; not a coordinate's
    assert "collapsed to a point: they lie within 0.016 of it, at length 32" in collapse_warning(embeddings)


def test_the_generalization_gap_is_test_minus_training():
    test, training = clustered(2.0, seed=1), clustered(0.05, seed=2)
    found = generalization_gap(*test, *training)
    assert found["MAP@R"] < -0.3
    assert generalization_gap(*test, *test) == {"P@1": 0.0, "MAP@R": 0.0}
    # Of four test items three find their class; of four training items all do.
    by_hand = generalization_gap(
        np.float32([[0], [1], [2.5], [9]]), [4, 4, 8, 8], np.float32([[0], [1], [8], [9]]), [0, 0, 1, 1]
    )
    assert by_hand["P@1"] == pytest.approx(3 / 4 - 1)
    with pytest.raises(InvalidInput, match="of one model for both"):
        generalization_gap(np.ones((4, 2)), [0, 0, 1, 1], np.ones((4, 3)), [0, 0, 1, 1])


@pytest.mark.parametrize("exponent", [1000, -1000])
def test_embeddings_of_any_size_are_diagnosed_alike(exponent):
    embeddings, labels = clustered(0.4)
    expected, found = diagnose(embeddings, labels), diagnose(np.ldexp(embeddings, exponent), labels)
    assert found.warning is None
    radius = expected.figures.pop("covering_radius")
    assert found.figures.pop("covering_radius") == np.ldexp(radius, exponent)
    assert found.figures == pytest.approx(expected.figures, rel=1e-12)
    lumps = 100 + 0.01 * embeddings
    assert collapse_warning(np.ldexp(lumps, exponent)).startswith("The embeddings have collapsed to a point: they lie")
    assert "inf" not in collapse_warning(np.ldexp(lumps, exponent))
