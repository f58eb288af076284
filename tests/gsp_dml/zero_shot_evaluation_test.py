import numpy as np
import pytest

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


def by_loops(attributes, embeddings, labels, fit, num_splits, ridge, seed):
    generator = np.random.default_rng(seed)
    classes = sorted(set(labels.tolist()))
    z = {c: attributes[labels == c].mean(0) for c in classes}
    v = {c: embeddings[labels == c].mean(0) for c in classes}
    right = []
    for _ in range(num_splits):
        order = [classes[i] for i in generator.permutation(len(classes))]
        seen, unseen = order[: len(classes) // 2], order[len(classes) // 2 :]
        if fit == "classes":
            inputs, targets = np.stack([z[c] for c in seen]), np.stack([v[c] for c in seen])
        else:
            chosen = [i for i, label in enumerate(labels) if label in seen]
            inputs, targets = attributes[chosen], np.stack([v[labels[i]] for i in chosen])
        regression = np.linalg.inv(inputs.T @ inputs + ridge * np.eye(4)) @ inputs.T @ targets
        hits = np.zeros(2)
        for c in unseen:
            guess = z[c] @ regression
            hits[0] += min(unseen, key=lambda other: np.linalg.norm(guess - v[other])) == c
            cosine = {other: guess @ v[other] / np.linalg.norm(v[other]) for other in unseen}
            hits[1] += max(cosine, key=cosine.get) == c
        right.append(hits / len(unseen))
    return np.array(right).T


@pytest.mark.parametrize("fit", ["samples", "classes"])
@pytest.mark.parametrize("informative", [True, False])
def test_it_equals_the_definition(fit, informative):
    data = examples(9, informative)
    settings = {"fit": fit, "num_splits": 20, "ridge": 0.05, "seed": 3}
    result = zero_shot_accuracy(*data, **settings)
    np.testing.assert_allclose([result.euclidean, result.cosine], by_loops(*data, **settings))


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
