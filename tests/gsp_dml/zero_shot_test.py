import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import cdist
from sklearn.linear_model import Ridge

from common.data import ClassBalancedBatches, MPerClassBatches, RandomPairBatches
from common.errors import InvalidInput
from gsp_dml.zero_shot_evaluation import zero_shot_accuracy
from gsp_dml.zero_shot_halves import HALVES, check_halves, half_of, half_of_classes
from gsp_dml.zero_shot_loss import ZeroShotPredictionLoss

ZERO_SHOT_LOSS_LABELS = np.array([4, 4, 1, 1, 1, 7, 0, 0, 7, 4])  # halves by first appearance: {4, 7} and {1, 0}


def random_attributes(batch=10, prototypes=6, seed=0):
    attributes = np.random.default_rng(seed).random((batch, prototypes))
    return attributes / attributes.sum(axis=1, keepdims=True)


def primal_loss(attributes, labels, embeddings, halves, ridge, scale, reduction):
    """Equation 5.2.4 in NumPy, with the normal equations of (P3) in their primal form."""
    terms = []
    for fitted, other in (halves, halves[::-1]):
        z, v = attributes[fitted].T, embeddings[labels[fitted]].T
        regression = v @ z.T @ np.linalg.inv(z @ z.T + ridge * np.eye(len(z)))
        logits = scale * (embeddings @ regression @ attributes[other].T).T
        terms.append(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(other)), labels[other]])
    return sum(term.mean() for term in terms) if reduction == "sum_of_means" else np.concatenate(terms).mean()


@pytest.mark.parametrize("reduction", ["sum_of_means", "mean"])
@pytest.mark.parametrize(
    ("halves", "indices"),
    [
        ("classes", ([0, 1, 5, 8, 9], [2, 3, 4, 6, 7])),
        ("classes", ([0, 1, 5], [2, 3, 4, 6, 7])),
        ("even_odd", ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])),
        ("even_odd", ([0, 2, 4, 6, 8], [1, 3, 5, 7])),
    ],
)
def test_the_loss_equals_its_primal_form(halves, indices, reduction):
    """Also of halves of different sizes, which have their own means."""
    loss = ZeroShotPredictionLoss(
        8, 5, ridge=0.03, logit_scale=2.5, reduction=reduction, halves=halves, dtype="float64"
    )
    count = sum(map(len, indices))
    attributes, labels = random_attributes(count), ZERO_SHOT_LOSS_LABELS[:count]
    embeddings = np.asarray(loss.get_weights()[0], np.float64)
    expected = primal_loss(attributes, labels, embeddings, indices, 0.03, 2.5, reduction)
    np.testing.assert_allclose(loss(attributes, labels), expected, rtol=1e-10)


def test_the_gradient_agrees_with_central_differences():
    loss = ZeroShotPredictionLoss(8, 3, logit_scale=3.0, dtype="float64")
    attributes = tf.constant(random_attributes(prototypes=4))
    theoretical, numerical = tf.test.compute_gradient(
        lambda z: loss(z, ZERO_SHOT_LOSS_LABELS), [attributes], delta=1e-5
    )
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=1e-7)


def test_without_attributes_the_loss_is_constant_and_has_no_gradient():
    loss = ZeroShotPredictionLoss(8, 5)
    attributes = tf.zeros([10, 6])
    with tf.GradientTape() as tape:
        tape.watch(attributes)
        value = loss(attributes, ZERO_SHOT_LOSS_LABELS)
    gradients = tape.gradient(value, [attributes, *loss.trainable_variables])
    np.testing.assert_allclose(value, 2 * np.log(8), rtol=1e-6)
    for gradient in gradients:
        np.testing.assert_array_equal(tf.convert_to_tensor(gradient), np.zeros(gradient.shape))


def test_a_batch_of_one_class_is_an_error_and_never_a_finite_number():
    loss = ZeroShotPredictionLoss(8, 5)
    attributes, labels = random_attributes(4), np.array([3, 3, 3, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least two classes"):
        loss(attributes, labels)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least two classes"):
        tf.function(loss)(attributes, labels)
    for reduction in ("sum_of_means", "mean"):
        loss = ZeroShotPredictionLoss(8, 5, reduction=reduction)
        assert np.isnan(tf.function(loss, jit_compile=True)(attributes, labels))


@pytest.mark.parametrize("label", [-1, 8])
def test_a_label_outside_the_classes_is_an_error_and_not_a_number_under_xla(label):
    loss, attributes = ZeroShotPredictionLoss(8, 5), random_attributes()
    labels = np.where(ZERO_SHOT_LOSS_LABELS == 7, label, ZERO_SHOT_LOSS_LABELS)
    for function in (loss, tf.function(loss)):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=rf"expected 0\.\.7\. Relabel.*{label}.*at position.*5"
        ):
            function(attributes, labels)
    assert np.isnan(tf.function(loss, jit_compile=True)(attributes, labels))


def test_labels_are_checked_as_those_of_other_losses():
    loss, attributes = ZeroShotPredictionLoss(8, 5), random_attributes()
    for labels in (
        ZERO_SHOT_LOSS_LABELS.astype(np.float32),
        ZERO_SHOT_LOSS_LABELS[:, None],
        ZERO_SHOT_LOSS_LABELS.tolist(),
    ):
        assert loss(attributes, labels) == loss(attributes, ZERO_SHOT_LOSS_LABELS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="class ids that are whole"):
        loss(attributes, ZERO_SHOT_LOSS_LABELS + 0.5)
    with pytest.raises(InvalidInput, match=r"shape of labels: received \(10, 8\)"):
        loss(attributes, np.eye(8, dtype=int)[ZERO_SHOT_LOSS_LABELS])


@pytest.mark.parametrize("reduction", ["sum_of_means", "mean"])
def test_sample_weights_are_factors_of_the_cross_entropies(reduction):
    loss, attributes = ZeroShotPredictionLoss(8, 5, reduction=reduction), random_attributes()
    weights = np.random.default_rng(0).uniform(0.0, 2.0, 10)
    assert loss(attributes, ZERO_SHOT_LOSS_LABELS, sample_weight=np.ones(10)) == loss(attributes, ZERO_SHOT_LOSS_LABELS)
    alone = [float(loss(attributes, ZERO_SHOT_LOSS_LABELS, sample_weight=row)) for row in np.eye(10)]
    np.testing.assert_allclose(
        loss(attributes, ZERO_SHOT_LOSS_LABELS, sample_weight=weights), np.dot(weights, alone), rtol=1e-5
    )
    np.testing.assert_allclose(sum(alone), loss(attributes, ZERO_SHOT_LOSS_LABELS), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_functions_xla_half_precision_and_unknown_batches_agree_with_eager(dtype):
    loss = ZeroShotPredictionLoss(8, 5)
    attributes, labels = random_attributes().astype("float32"), ZERO_SHOT_LOSS_LABELS.astype(dtype)
    expected = loss(attributes, labels)
    signature = [tf.TensorSpec([None, 6]), tf.TensorSpec([None], dtype)]
    np.testing.assert_allclose(tf.function(loss.call, signature)(attributes, labels), expected, rtol=1e-5)
    np.testing.assert_allclose(tf.function(loss, jit_compile=True)(attributes, labels), expected, rtol=1e-5)
    assert loss(tf.cast(attributes, tf.float16), labels).dtype == tf.float32


def test_a_single_class_is_refused():
    with pytest.raises(InvalidInput, match="num_classes"):
        ZeroShotPredictionLoss(1, 5)


ZERO_SHOT_HALVES_LABELS = np.repeat(np.arange(20), 6)


def test_labels_far_above_float32_integers_are_told_apart():
    labels = tf.constant([2**24, 2**24 + 1, 2**24, 2**24 + 1], tf.int64)
    np.testing.assert_array_equal(half_of_classes(labels), [0, 1, 0, 1])


def test_halves_share_no_class_and_are_balanced_for_any_batch():
    rng = np.random.default_rng(1)
    for _ in range(50):
        labels = rng.integers(0, rng.integers(2, 9), size=rng.integers(2, 30))
        half = half_of_classes(tf.constant(labels)).numpy()
        classes = [set(labels[half == side]) for side in (0, 1)]
        assert not classes[0] & classes[1]
        assert 0 <= len(classes[0]) - len(classes[1]) <= 1


def shares_a_class(batches, halves: str) -> bool:
    """Whether any of the first batches has a class in both halves, or all of its classes in one."""
    for batch in batches.epoch(0)[:30]:
        labels = ZERO_SHOT_HALVES_LABELS[batch]
        half = half_of(tf.constant(labels), halves).numpy()
        classes = [set(labels[half == side]) for side in (0, 1)]
        if classes[0] & classes[1] or not all(classes):
            return True
    return False


@pytest.mark.parametrize("halves", HALVES)
@pytest.mark.parametrize("classes", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("samples", [1, 2, 3, 4])
@pytest.mark.parametrize("interleaved", [False, True])
def test_what_the_check_lets_pass_is_what_batches_show(halves, classes, samples, interleaved):
    samplers = [ClassBalancedBatches(ZERO_SHOT_HALVES_LABELS, classes, samples, 0, interleaved=interleaved)]
    if not interleaved:
        samplers.append(MPerClassBatches(ZERO_SHOT_HALVES_LABELS, classes, samples, 0))
    for batches in samplers:
        if shares_a_class(batches, halves):
            with pytest.raises(InvalidInput, match="zero_shot_halves: .*expected (two classes|halves without)"):
                check_halves(batches.class_places, halves)
        else:
            check_halves(batches.class_places, halves)


def test_without_an_order_of_classes_only_halves_by_classes_pass():
    batches = RandomPairBatches(ZERO_SHOT_HALVES_LABELS, 16, 0)
    check_halves(batches.class_places, "classes")
    with pytest.raises(InvalidInput, match="any class may stand anywhere.*--sampler=m_per_class.*=classes"):
        check_halves(batches.class_places, "even_odd")
    with pytest.raises(InvalidInput, match="classes, even_odd"):
        check_halves(batches.class_places, "thirds")


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
