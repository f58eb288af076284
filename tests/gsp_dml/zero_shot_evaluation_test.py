import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.linear_model import Ridge

from common.errors import InvalidInput
from gsp_dml.zero_shot_evaluation import zero_shot_accuracy


def examples(num_classes=10, informative=True, seed=0):
    """Class means that are a linear map of the class' attributes, or have nothing to do with them."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(num_classes), 20)
    profiles = generator.dirichlet(np.ones(4), size=num_classes)
    attributes = np.abs(profiles[labels] + 0.01 * generator.normal(size=(len(labels), 4)))
    means = profiles @ generator.normal(size=(4, 6)) if informative else generator.normal(size=(num_classes, 6))
    return attributes, means[labels] + 0.01 * generator.normal(size=(len(labels), 6)), labels


def by_scikit_learn(attributes, embeddings, labels, fit, num_splits, ridge, seed):
    generator, right = np.random.default_rng(seed), []
    classes = np.unique(labels)
    z, v = (np.stack([values[labels == c].mean(axis=0) for c in classes]) for values in (attributes, embeddings))
    for _ in range(num_splits):
        seen, unseen = np.split(generator.permutation(len(classes)), [len(classes) // 2])
        chosen = np.isin(labels, seen)
        data = (z[seen], v[seen]) if fit == "classes" else (attributes[chosen], v[labels[chosen]])
        guesses = Ridge(ridge, fit_intercept=False).fit(*data).predict(z[unseen])
        nearest = [cdist(guesses, v[unseen], metric).argmin(axis=1) for metric in ("euclidean", "cosine")]
        right.append(np.mean(nearest == np.arange(len(unseen)), axis=1))
    return np.transpose(right)


@pytest.mark.parametrize("fit", ["samples", "classes"])
@pytest.mark.parametrize("informative", [True, False])
def test_it_equals_the_definition(fit, informative):
    data = examples(9, informative)
    settings = {"fit": fit, "num_splits": 20, "ridge": 0.05, "seed": 3}
    result = zero_shot_accuracy(*data, **settings)
    np.testing.assert_allclose([result.euclidean, result.cosine], by_scikit_learn(*data, **settings))


def test_informative_attributes_transfer_and_others_do_not():
    good = zero_shot_accuracy(*examples(), ridge=1e-3, num_splits=200)
    bad = zero_shot_accuracy(*examples(informative=False), num_splits=200)
    assert good.chance == bad.chance == 0.2
    assert good.cosine.mean() > 0.8
    assert abs(bad.cosine.mean() - 0.2) < 0.15
    assert good.euclidean.shape == (200,)
    assert zero_shot_accuracy(*examples(9), num_splits=1).chance == 1 / 5  # the larger half is unseen


def test_bad_input_is_named():
    attributes, embeddings, labels = examples(3)
    with pytest.raises(InvalidInput, match="3 classes.*four"):
        zero_shot_accuracy(attributes, embeddings, labels)
    with pytest.raises(InvalidInput, match="fit.*'images'.*samples"):
        zero_shot_accuracy(*examples(), fit="images")
