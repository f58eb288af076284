"""Losses against pytorch-metric-learning in float64: values and gradients, on the inputs of the benchmark."""

import numpy as np
import pytest
from tensorflow import keras

from benchmarks.losses import CASES, Case, OurStep, make_inputs, peer_step
from common.losses import CrossBatchMemoryLoss, MultiSimilarityLoss, SmoothAPLoss

pytest.importorskip("pytorch_metric_learning", reason="needs constraints/peers.txt")
SMALL = {name: case for name, case in CASES.items() if not (case.references or name.endswith(("_112", "_100k")))}


@pytest.fixture(autouse=True)
def _float64():
    keras.backend.set_floatx("float64")
    yield
    keras.backend.set_floatx("float32")


def exact_inputs(case):
    """The inputs in float64."""
    inputs = make_inputs(case)
    proxies = None if inputs.proxies is None else inputs.proxies.astype("float64")
    return inputs._replace(embeddings=inputs.embeddings.astype("float64"), proxies=proxies)


def check_equal(ours, peer, tolerance=1e-9):
    """Compare values and gradients; ours may have the batch as its references, too."""
    value, gradients = ours.step(*ours.arguments)
    expected = peer._value() / peer.divisor
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=tolerance)
    expected = peer.embeddings.grad.numpy()
    own = sum(np.asarray(gradient) for gradient in gradients[: len(ours.arguments) // 2])
    np.testing.assert_allclose(own, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("name", [name for name, case in SMALL.items() if case.alike])
def test_value_and_gradient_equal_the_peers(name):
    """Largest relative errors: 3.0e-12 and 2.8e-10 (circle), else 1.6e-15 and 2.0e-14."""
    inputs = exact_inputs(SMALL[name])
    check_equal(OurStep(SMALL[name], inputs), peer_step(SMALL[name], inputs))


def test_a_union_of_batch_and_memory_is_the_peer_s_memory():
    """The peer's memory holds the batch, so it has six entries more."""
    import torch
    from pytorch_metric_learning import losses as peer_losses

    peer = peer_losses.CrossBatchMemory(peer_losses.MultiSimilarityLoss(2.0, 40.0, 0.5), 8, memory_size=18)
    ours = CrossBatchMemoryLoss(MultiSimilarityLoss(2.0, 40.0, 0.5), 12, 8, start_step=0, terms="union")
    generator = np.random.default_rng(0)
    for _ in range(5):  # from the third on both memories are full
        embeddings, labels = generator.normal(size=(6, 8)), generator.integers(0, 3, 6)
        expected = peer(torch.from_numpy(embeddings.astype(np.float32)), torch.from_numpy(labels))
        np.testing.assert_allclose(ours(embeddings, labels, training=True), expected.item(), rtol=1e-5)


def test_smooth_ap_equals_the_peers_with_as_many_classes_as_images_of_each():
    """The peer also ranks the anchor itself, as ours if the batch is its references. It adds up in float32."""
    case = Case(SmoothAPLoss, "smoothap", batch=16)
    inputs = exact_inputs(case)
    itself = inputs._replace(references=(inputs.embeddings, inputs.labels))
    ours = OurStep(case._replace(references=16, train_references=True), itself)
    check_equal(ours, peer_step(case, inputs), 1e-6)
