"""That a GPU can run the layers: TensorFlow's wheel registers its CUDA kernels on machines without one, too."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

from ccp_dml import ChanceConstrainedLoss
from common.losses import ContrastiveLoss
from common.ops.k_center import greedy_k_center
from common.references import ProxyBank
from gsp_dml import ZeroShotPredictionLoss
from tests.conformance.loss_table import BATCH, DIM, LOSSES, NUM_CLASSES
from tests.conformance.pooling_test import CHANNELS, HEIGHT, POOLINGS, WIDTH

pytestmark = [
    pytest.mark.default_stack,  # kernels of the thesis' TensorFlow are others
    pytest.mark.skipif(not tf.test.is_built_with_cuda(), reason="this TensorFlow has no CUDA kernels"),
]
THROUGH_THE_HOST = {"Max", "Min", "ScatterNd", "Sum", "TensorScatterAdd"}  # if they are of int32, as sizes are
LABELS, VECTORS = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, DIM])


@functools.cache
def kernels_of(operation):
    found = kernels.get_registered_kernels_for_op(operation).kernel
    return [kernel for kernel in found if kernel.device_type in ("GPU", "DEFAULT")]


def takes(kernel, node):
    """Whether a kernel has the types of a node."""
    for constraint in kernel.constraint:
        given = node.attr[constraint.name]
        types = [given.type] if given.WhichOneof("value") == "type" else given.list.type
        if set(types) - set(constraint.allowed_values.list.type):
            return False
    return True


def without_kernel(function, *specs):
    """Return the operations of a traced function that a GPU lacks or leaves to the host."""
    graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph.as_graph_def()
    bodies = {each.signature.name: each.node_def for each in graph.library.function}
    checks = {
        name for name, body in bodies.items() if any("Assert" in node.name for node in body)
    }  # branches that fail
    nodes = [*graph.node, *(node for name, body in bodies.items() if name not in checks for node in body)]
    nodes = [node for node in nodes if node.attr["dtype"].type != tf.string.as_datatype_enum]  # their messages
    missing = {node.op for node in nodes if not any(takes(kernel, node) for kernel in kernels_of(node.op))}
    of_32_bits = {node.op for node in nodes if node.attr["T"].type == tf.int32.as_datatype_enum}
    return missing - {"Assert"} - set(bodies) | of_32_bits & THROUGH_THE_HOST


def with_gradient(layer, *inputs, **keywords):
    with tf.GradientTape() as tape:
        tape.watch(inputs[0])
        found = layer(*inputs, training=True, **keywords)
    return tape.gradient(found, [inputs[0], *layer.trainable_variables])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    loss = LOSSES[name]()
    assert without_kernel(functools.partial(with_gradient, loss), VECTORS, LABELS) == set()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", POOLINGS)
def test_poolings(name):
    layer = POOLINGS[name]()
    maps = tf.TensorSpec([BATCH, HEIGHT, WIDTH, CHANNELS])
    layer(tf.zeros(maps.shape))
    assert without_kernel(functools.partial(with_gradient, layer), maps) == set()


def test_projections_and_zero_shot_prediction():
    loss = ChanceConstrainedLoss(ContrastiveLoss(), ProxyBank(NUM_CLASSES, 2, DIM))
    assert without_kernel(functools.partial(with_gradient, loss), VECTORS, LABELS) == set()
    zero_shot = ZeroShotPredictionLoss(NUM_CLASSES, 3)
    attributes = tf.TensorSpec([BATCH, 6])
    zero_shot(tf.ones(attributes.shape) / 6, np.arange(BATCH) % NUM_CLASSES)
    assert without_kernel(functools.partial(with_gradient, zero_shot), attributes, LABELS) == set()
    points = tf.TensorSpec([3, 9, DIM])
    assert without_kernel(functools.partial(greedy_k_center, num_centers=2), points) == set()
