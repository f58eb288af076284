import numpy as np
import pytest
from sklearn.covariance import LedoitWolf
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from common.errors import InvalidInput
from common.training.closed_forms import principal_components, within_class_whitening

CLASSES, CHANNELS = 6, 9


@pytest.fixture(scope="module")
def labels():
    return np.arange(120) % CLASSES


@pytest.fixture(scope="module")
def features(labels):
    rng = np.random.default_rng(3)
    within = rng.normal(size=(len(labels), CHANNELS)) @ rng.normal(size=(CHANNELS, CHANNELS))
    return (5 + within + rng.normal(0, 2, (CLASSES, CHANNELS))[labels]).astype(np.float32)


def test_principal_components_are_scikit_learns(features):
    ours, theirs = principal_components(features, 4)(features), PCA(4).fit_transform(features.astype(np.float64))
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-5)
    np.testing.assert_allclose(ours.mean(axis=0), 0, atol=1e-9)


def test_whitening_without_shrinkage_is_linear_discriminant_analysis(features, labels):
    ours = within_class_whitening(features, labels, CLASSES - 1, shrinkage=0)(features)
    theirs = LinearDiscriminantAnalysis(solver="svd").fit(features, labels).transform(features)
    inner, expected = ours @ ours.T, theirs @ theirs.T  # whatever the signs of the axes
    np.testing.assert_allclose(inner, expected, rtol=1e-4, atol=1e-2)


def test_the_covariance_within_classes_is_shrunk_as_scikit_learns_is(features, labels):
    means = np.stack([features[labels == label].mean(axis=0) for label in range(CLASSES)])
    covariance = LedoitWolf(assume_centered=True).fit((features - means[labels]).astype(np.float64)).covariance_
    whitened = within_class_whitening(features, labels, CHANNELS)
    np.testing.assert_allclose(whitened.kernel.T @ covariance @ whitened.kernel, np.eye(CHANNELS), atol=1e-4)


def test_directions_without_variance_within_classes_stay_finite(labels):
    features = np.random.default_rng(0).normal(size=(len(labels), CHANNELS))
    features[:, :2] = np.eye(CLASSES)[labels, :2]
    whitened = within_class_whitening(features, labels, CHANNELS, shrinkage=0)
    assert np.isfinite(whitened.kernel).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": CHANNELS + 1}, "dim: received 10, expected 1 to 9, with 120 items of 9 channels"),
        ({"features": np.full((120, CHANNELS), np.nan)}, "features: received 'NaN or infinite values'"),
        ({"labels": np.zeros(7, int)}, "labels: received .7,., expected one of each item"),
        ({"labels": np.arange(120)}, "labels: received 'classes without variance'"),
        ({"shrinkage": 1.5}, "shrinkage"),
    ],
)
def test_bad_arguments_are_refused(features, labels, change, message):
    with pytest.raises(InvalidInput, match=f"Invalid {message}"):
        within_class_whitening(**{"features": features, "labels": labels, "dim": 2, **change})
