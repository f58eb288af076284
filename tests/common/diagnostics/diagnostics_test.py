import json

import numpy as np
import pytest

from common.diagnostics import evaluate_clustering
from common.diagnostics.class_geometry import alignment, class_covering_radii, class_distances, uniformity
from common.diagnostics.diagnostic_names import NAMES
from common.diagnostics.diagnostics import collapse_warning, diagnose, generalization_gap
from common.diagnostics.spectral_decay import spectral_decay
from common.errors import InvalidInput


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
