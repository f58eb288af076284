import inspect

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_callbacks

import milbich_dml
from common import losses
from common.errors import InvalidInput
from common.losses.rank_losses import RankLoss
from common.references import References
from common.training import MetricModel
from common.training.devices import precision_policy
from common.training.gradients import loss_and_gradients
from tests.conformance.loss_table import BATCH, DIM, LOSSES, NUM_CLASSES
from tests.support.samples import sampled
from tests.support.slopes import slope_along

keras = tf.keras
ADAM = keras.optimizers.Adam()
SIGNATURE = [tf.TensorSpec([None, DIM], tf.float32), tf.TensorSpec([None], tf.int64)]  # of any batch size


@pytest.fixture(params=list(LOSSES), scope="module")
def create(request):
    return LOSSES[request.param]


@pytest.fixture(scope="module")
def references(request):
    return random_references(1) if request.param == "references" else None


PROVIDERS = ["alone", "references"]
each_loss_with_a_provider = sampled("create, references", list(LOSSES), PROVIDERS, indirect=True)


def random_batch(seed=0, size=BATCH):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(size, DIM)), rng.integers(0, NUM_CLASSES, size)


def random_references(seed):
    embeddings, labels = random_batch(seed, size=9)
    return References(embeddings, labels, np.arange(9) != 4)


def remember(loss):
    """Fills a memory, if the loss has one, so that its second term takes part."""
    for seed in (10, 11) if loss.non_trainable_weights else ():
        loss(*random_batch(seed), training=True)
    return loss


def skip_if_drawn(loss):
    """Which triplets are drawn, and which half of a batch is seen, follows the order of the batch."""
    if isinstance(loss, (losses.HIERLoss, losses.MinedLoss, milbich_dml.PermutedLabelsLoss, milbich_dml.ViewLoss)):
        pytest.skip("a loss over drawn triplets or labels, or over one half of the batch")


@pytest.mark.one_in(2)
def test_an_embedding_that_is_no_number_is_seen_in_the_loss(create):
    loss, (embeddings, labels) = create(), random_batch()
    for component, references in ((np.nan, None), (1e30, random_references(1))):  # its square is beyond float32
        embeddings[2, 1] = component
        assert np.isnan(loss(tf.constant(embeddings, tf.float32), labels, references))


def value_and_gradient_of(loss, references):
    def value_and_gradient(embeddings, labels):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = loss(embeddings, labels, references)
        return value, tape.gradient(value, embeddings)

    return value_and_gradient


def assert_equal_for_sizes(compiled, eager, sizes):
    for size in sizes:
        embeddings, labels = random_batch(size=size)
        embeddings, labels = tf.constant(embeddings, tf.float32), tf.constant(labels)
        for result, expected in zip(compiled(embeddings, labels), eager(embeddings, labels)):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.one_in(7)
@each_loss_with_a_provider
def test_function_of_unknown_batch_size_equals_eager(create, references):
    eager = value_and_gradient_of(remember(create()), references)
    assert_equal_for_sizes(tf.function(eager, SIGNATURE, autograph=False), eager, [BATCH, BATCH - 2])


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.one_in(21)  # odd, so that both providers have their turn
@each_loss_with_a_provider
def test_xla_equals_eager(create, references):
    if isinstance(create(), milbich_dml.InTurnLoss):
        pytest.skip("XLA cannot compile the gradient of a branch with an unknown batch size")
    if isinstance(create(), losses.AngularLoss) and tf.__version__.startswith("2.16"):
        pytest.skip("XLA of TensorFlow 2.16 cannot compile an unknown number of positives")
    eager = value_and_gradient_of(remember(create()), references)
    assert_equal_for_sizes(tf.function(eager, SIGNATURE, jit_compile=True, autograph=False), eager, [BATCH])


@sampled(
    "create, references, normalization", list(LOSSES), PROVIDERS, ["unit", "clip"], indirect=["create", "references"]
)
def test_gradient_equals_central_differences(create, references, normalization):
    loss = remember(create(normalization=normalization, dtype="float64"))
    if isinstance(loss, (milbich_dml.DecorrelationLoss, losses.HIERLoss, losses.SelfDistillationLoss)):
        pytest.skip("its gradient is reversed, straight-through, or stopped in a teacher: see its own test")
    embeddings, labels = random_batch()
    points = [tf.Variable(embeddings * 0.7), *loss.trainable_variables]
    if references is not None:
        points.append(tf.Variable(references.embeddings))

    def value():
        given = references and References(points[-1], references.labels, references.valid)
        return loss(points[0], labels, given)

    with tf.GradientTape() as tape:
        total = value()
    rng = np.random.default_rng(2)
    for point, gradient in zip(points, tape.gradient(total, points)):
        direction = rng.normal(size=point.shape)
        analytic = 0.0 if gradient is None else np.sum(gradient * direction)
        np.testing.assert_allclose(analytic, slope_along(direction, point, value), rtol=1e-5, atol=1e-7)


@pytest.mark.one_in(3)
@each_loss_with_a_provider
def test_order_of_the_batch_does_not_matter(create, references):
    loss = remember(create())
    skip_if_drawn(loss)
    embeddings, labels = random_batch()
    order = np.random.default_rng(3).permutation(BATCH)
    expected = loss(embeddings, labels, references)
    np.testing.assert_allclose(loss(embeddings[order], labels[order], references), expected, rtol=1e-5)


@pytest.mark.one_in(2)
def test_names_of_the_classes_do_not_matter(create):
    loss = create()
    if isinstance(loss, milbich_dml.GroupLabelsLoss):
        pytest.skip("its labels are places in the training set")
    embeddings, labels = random_batch()
    given = random_references(1)
    names = np.array([2**53 + 1, 2**24 + 1, 2**53, 2**24])  # neighbours that a float would merge
    renamed = loss(embeddings, names[labels], given._replace(labels=names[given.labels]))
    np.testing.assert_allclose(renamed, loss(embeddings, labels, given), rtol=1e-6)


def takes_several_labels(create):
    """Whether a loss takes one-hot bools, with the value of class ids; else its error names those that do."""
    loss, (embeddings, labels) = create(), random_batch()
    try:
        found = loss(embeddings, np.eye(NUM_CLASSES, dtype=bool)[labels])
    except InvalidInput as error:
        if "Losses of pairs take bools [batch, classes], such as ContrastiveLoss, TripletLoss" not in str(error):
            raise
        return False
    np.testing.assert_array_equal(found, loss(embeddings, labels))
    return True


def test_which_losses_take_several_labels():
    """Those of pairs alone; not those with proxies, a memory, groups or parameters of classes."""
    taking = {name.split(" ")[0].removesuffix("Loss") for name in LOSSES if takes_several_labels(LOSSES[name])}
    of_pairs = (
        "Contrastive CosineContrastive Triplet MultiSimilarity SupervisedContrastive NPair LiftedStructure Angular "
    )
    of_pairs += "Histogram SignalToNoise Circle SmoothAP Roadmap RecallAtK PenalizedNegatives FastAP"
    assert taking >= set(of_pairs.split())
    others = "ProxyNCA ProxyAnchor SoftTriple ArcFace NormalizedSoftmax Quadruplet Margin CrossBatchMemory GroupLabels"
    assert not taking & set(others.split())


@pytest.mark.one_in(14)
def test_a_label_that_stops_a_loss_makes_it_not_a_number_under_xla(create):
    loss, (embeddings, labels) = create(), random_batch()
    labels[5] = NUM_CLASSES
    try:
        value, expected = loss(embeddings, labels), np.isfinite
    except tf.errors.InvalidArgumentError:
        value = tf.function(loss, jit_compile=True, autograph=False)(tf.constant(embeddings), tf.constant(labels))
        expected = np.isnan
    assert expected(value)


@pytest.mark.one_in(2)
def test_terms_have_the_weight_of_their_sample_or_weights_are_refused(create):
    loss, (embeddings, labels) = remember(create()), random_batch()
    points = tf.Variable(embeddings, dtype=tf.float32)

    def value_of(**weights):
        with tf.GradientTape() as tape:
            value = loss(tf.convert_to_tensor(points), labels, **weights)
        return value, tape.gradient(value, points)

    try:
        for found, expected in zip(value_of(sample_weight=np.ones(BATCH)), value_of()):
            np.testing.assert_array_equal(found, expected)
    except InvalidInput as error:
        if "Invalid sample_weight: received 'weights of single samples for " not in str(error):
            raise
        return
    first, second = np.random.default_rng(4).uniform(0.0, 3.0, (2, BATCH))
    rest, one, other, both = (value_of(sample_weight=w)[0] for w in (0 * first, first, second, first + second))
    np.testing.assert_allclose(one + other - rest, both, rtol=1e-5)
    assert abs(float(one - other)) > 1e-4
    skip_if_drawn(loss)
    order = np.random.default_rng(3).permutation(BATCH)
    np.testing.assert_allclose(loss(embeddings[order], labels[order], sample_weight=first[order]), one, rtol=1e-5)


def test_which_losses_take_sample_weights():
    """Those with terms of anchors, and composers of them."""
    taking = {name for name, make in LOSSES.items() if "sample_weight" in inspect.signature(make().call).parameters}
    refusing = {name.split(" ")[0].removesuffix("Loss") for name in LOSSES.keys() - taking}
    expected = (
        "Angular CodingRate Contrastive Decorrelation DistanceAdaptedContrast HIER Histogram KoLeo LiftedStructure "
    )
    assert refusing == set(
        (expected + "PermutedLabels ProxyAnchor Quadruplet SelfDistillation SignalToNoise View").split()
    )


@sampled(
    "create, embeddings, classes",
    list(LOSSES),
    ["coincident", "zero", "large", "huge"],
    ["one", "each its own", "mixed"],
    indirect=["create"],
)
def test_value_and_gradient_are_finite(create, classes, embeddings):
    loss = create()
    points = {"coincident": np.ones((4, DIM)), "zero": np.zeros((4, DIM)), "large": 1000.0 * np.eye(4, DIM)}
    points = 1e18 * np.eye(4, DIM) + 1e17 if embeddings == "huge" else points[embeddings]
    points = tf.constant(points, tf.float32 if embeddings == "huge" else tf.float16)
    labels = np.array({"one": [1, 1, 1, 1], "each its own": [0, 1, 2, 3], "mixed": [0, 0, 1, 1]}[classes])
    for references in (
        None,
        References(points, labels, np.arange(4) < 2),
        References(points, labels, np.zeros(4, bool)),
    ):
        with tf.GradientTape() as tape:
            tape.watch(points)
            value = loss(points, labels, references, training=True)
        gradients = tape.gradient(value, [points, *loss.trainable_variables])
        assert np.isfinite(value)
        assert value >= -1e-6 or can_be_negative(loss)
        assert all(np.all(np.isfinite(gradient)) for gradient in gradients if gradient is not None)


def can_be_negative(loss):
    kinds = (losses.CodingRateLoss, losses.KoLeoLoss, milbich_dml.DecorrelationLoss)
    return isinstance(loss, kinds) or getattr(loss, "denominator", "") == "negatives"


def test_references_that_are_not_valid_do_not_matter(create):
    """Also where they, or those that count, are embeddings of the batch."""
    loss, (embeddings, labels) = create(dtype="float64"), random_batch()
    skip_if_drawn(loss)
    others, other_labels = random_batch(1, 5)
    others[3:] = embeddings[:2]
    for ignored in (random_batch(2, 4), (embeddings[1:5], labels[1:5])):
        both = [np.concatenate(parts) for parts in zip((others, other_labels), ignored)]
        found = loss(embeddings, labels, References(*both, np.arange(9) < 5))
        np.testing.assert_allclose(found, loss(embeddings, labels, References(others, other_labels)), rtol=1e-6)


@pytest.mark.one_in(3)
@each_loss_with_a_provider
def test_a_batch_without_embeddings_has_a_finite_value_and_gradient(create, references):
    loss = create()
    points = tf.zeros([0, DIM])
    with tf.GradientTape() as tape:
        tape.watch(points)
        value = loss(points, np.zeros(0, np.int64), references, training=True)
    gradients = tape.gradient(value, [points, *loss.trainable_variables])
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients if gradient is not None)


def sizes_of_tensors(function):
    """The number of elements of every tensor that is made, forwards and backwards."""
    sizes = []

    def record(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        del op_type, inputs, attrs, op_name, graph
        sizes.extend(int(np.prod(output.shape)) for output in outputs)

    op_callbacks.add_op_callback(record)
    try:
        function()
    finally:
        op_callbacks.remove_op_callback(record)
    return sizes


@pytest.mark.one_in(2)
def test_no_tensor_is_cubic(create):
    loss, size = remember(create()), 40
    embeddings, labels = random_batch(size=size)
    variable = tf.Variable(embeddings, dtype=tf.float32)

    def passes():
        with tf.GradientTape() as tape:
            value = loss(tf.convert_to_tensor(variable), labels)
        tape.gradient(value, variable)

    largest = max(sizes_of_tensors(passes))
    num_pairs = int((labels[:, None] == labels).sum()) if isinstance(loss, RankLoss) else size
    assert size <= largest <= 4 * size * num_pairs  # ranks compare each positive with the batch
    assert max(sizes_of_tensors(lambda: tf.zeros([size, size, size]))) == size**3  # it would be seen


@pytest.mark.one_in(3)
@each_loss_with_a_provider
def test_mixed_precision_policy_leaves_the_loss_in_float32(create, references):
    embeddings, labels = random_batch()
    half = tf.constant(embeddings, tf.float16)
    with precision_policy("mixed_float16"):
        loss = create()
        value = loss(half, labels, references)
    assert value.dtype == tf.float32
    assert all(variable.dtype == "float32" for variable in loss.trainable_variables)
    np.testing.assert_allclose(value, loss(tf.cast(half, tf.float32), labels, references), rtol=1e-6)


def test_config_round_trip(create):
    loss = create(normalization="clip")
    again = type(loss).from_config(loss.get_config())
    assert again.get_config() == loss.get_config()
    assert again.normalization == loss.normalization
    serialized = keras.utils.deserialize_keras_object(keras.utils.serialize_keras_object(loss))
    assert serialized.get_config() == loss.get_config()


def test_proxy_variables_are_trainable(create):
    loss = create()
    trainable = {id(variable) for variable in loss.trainable_variables}
    assert {id(variable) for variable in loss.proxy_variables} <= trainable


@pytest.mark.one_in(2)
def test_checkpoint_restores_the_state(create, tmp_path):
    loss, restored = remember(create()), create()
    for variable in loss.trainable_variables:
        variable.assign(2 * variable)
    path = tf.train.Checkpoint(loss=loss).save(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(loss=restored).restore(path).assert_existing_objects_matched()
    for weight, other in zip(loss.weights, restored.weights, strict=True):
        np.testing.assert_array_equal(other, weight)
    batch = random_batch(6)
    np.testing.assert_allclose(restored(*batch), loss(*batch), rtol=1e-6)


@pytest.mark.one_in(6)
def test_micro_batches_have_the_gradient_of_the_batch(create):
    inputs, labels = (tf.constant(of) for of in random_batch())
    layers = [keras.Input([DIM], dtype="float64"), keras.layers.Dense(DIM, "tanh", dtype="float64")]
    network = keras.Sequential(layers)

    first, second = create(dtype="float64"), create(dtype="float64")
    remember(first), remember(second)
    second.set_weights(first.get_weights())

    def step(loss, micro_batch):
        model = MetricModel(network, loss, micro_batch=micro_batch, dtype="float64")
        return loss_and_gradients(
            lambda: loss(model(inputs, training=True), labels, training=True), network.trainable_variables, ADAM
        )

    (value, gradients), (other, found) = step(first, None), step(second, 5)
    np.testing.assert_allclose(other, value, rtol=1e-12)
    for of, expected in zip(found, gradients):
        np.testing.assert_allclose(of, expected, rtol=1e-9, atol=1e-12)
