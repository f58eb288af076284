"""A program: steps of every loss on one device and on replicas, and how far apart they are, as JSON.

    python -m tests.conformance.replicated_steps REPLICAS [NAME ...]

Replicas are virtual devices of the processor. Everything runs eagerly, so that no step is traced.
"""

import json
import sys

import numpy as np
import tensorflow as tf

from ccp_dml import ChanceConstrainedLoss
from common import losses
from common.ops.replicas import gather_over_replicas, num_replicas
from common.references import ProxyBank
from common.training.gradients import loss_and_gradients, weighted_loss
from gsp_dml import GeneralizedSumPooling, ZeroShotPredictionLoss
from tests.conformance.central_differences import derivatives
from tests.conformance.loss_table import BATCH, DIM, LOSSES, NUM_CLASSES

keras = tf.keras
INPUTS, POSITIONS, RATE, NUM_STEPS = 4, 6, 0.05, 2
LABELS = np.tile(np.arange(NUM_CLASSES), BATCH // NUM_CLASSES)


def with_memory(loss):
    return losses.CrossBatchMemoryLoss(loss, 2 * BATCH, DIM, start_step=1)


def with_proxies(loss):
    return ChanceConstrainedLoss(loss, ProxyBank(NUM_CLASSES, 2, DIM), in_batch_weight=0.1)


COMPOSITIONS = {"plain": lambda loss: loss, "xbm": with_memory, "ccp": with_proxies, "gsp": None, "zero_shot": None}


class Trained:
    """Local features -> pooling -> projection -> loss, with the same weights each time."""

    def __init__(self, loss, composition):
        around = COMPOSITIONS[composition]
        self.loss = LOSSES[loss]() if around is None else around(LOSSES[loss]())
        self.pooling, self.zero_shot = None, None
        if composition in ("gsp", "zero_shot"):
            settings = {"memory_size": BATCH, "memory_features": "local_features", "return_attributes": True}
            self.pooling = GeneralizedSumPooling(4, **settings)
            self.pooling.build((None, POSITIONS, INPUTS))
        if composition == "zero_shot":
            self.zero_shot = ZeroShotPredictionLoss(NUM_CLASSES, DIM)
        rng = np.random.default_rng(1)
        self.projection = tf.Variable(rng.normal(size=(INPUTS, DIM)).astype("float32"))
        owned = [part for part in (self.loss, self.pooling, self.zero_shot) if part is not None]
        self.variables = [self.projection, *(v for part in owned for v in part.trainable_variables)]
        for variable in self.variables[1:]:
            variable.assign(np.where(variable.shape, 1, 0.5) if not variable.shape else rng.normal(size=variable.shape))
        self.optimizer = keras.optimizers.SGD()

    def outputs_of(self, inputs):
        if self.pooling is None:
            return {"embeddings": tf.matmul(tf.reduce_mean(inputs, axis=1), self.projection)}
        pooled = self.pooling(inputs, training=True)
        return {"embeddings": tf.matmul(pooled["pooled"], self.projection), "attributes": pooled["attributes"]}

    def step(self, inputs, labels):
        """Descends once; the loss and the gradients of the global batch."""

        def compute_loss():
            outputs = self.outputs_of(inputs)
            return weighted_loss(outputs, labels, self.loss, self.zero_shot, 0.1, training=True)

        loss, gradients = loss_and_gradients(compute_loss, self.variables, self.optimizer)
        for variable, gradient in zip(self.variables, gradients):
            variable.assign_sub(RATE * gradient)
        return loss, gradients


def batch_of(step):
    rng = np.random.default_rng(100 + step)
    return rng.normal(size=(BATCH, POSITIONS, INPUTS)).astype("float32"), np.roll(LABELS, step)


def split(strategy, values):
    parts = np.split(values, strategy.num_replicas_in_sync)
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group])
    )


def steps_of(strategy, loss, composition):
    """Losses and gradients of each step, of the last replica."""
    with strategy.scope():
        trained = Trained(loss, composition)
    rows = []
    for number in range(NUM_STEPS):
        data = [split(strategy, values) for values in batch_of(number)]
        value, gradients = strategy.run(trained.step, args=data)
        values = [strategy.experimental_local_results(each) for each in (value, *gradients)]
        rows.append([np.asarray(of_replicas[-1]) for of_replicas in values])
    return rows


def difference(found, expected):
    """The largest one in units of the largest number, of lists of arrays."""
    return max(
        float(np.max(np.abs(one - other)) / max(1.0, np.max(np.abs(other)))) for one, other in zip(found, expected)
    )


def compare(strategy, one, loss, composition):
    found, expected = (steps_of(each, loss, composition) for each in (strategy, one))
    return max(difference(*rows) for rows in zip(found, expected))


def central_differences(strategy):
    """The error of the gradient through the gathering of a weight that every replica has."""
    rows = np.random.default_rng(0).normal(size=(BATCH, DIM))
    weight = np.random.default_rng(1).normal(size=(DIM, DIM))

    def value(weight, inputs):
        gathered = gather_over_replicas(tf.matmul(inputs, weight))
        return tf.reduce_sum(tf.sin(tf.matmul(gathered, gathered, transpose_b=True)))

    def gradient(inputs):
        found = tf.constant(weight)
        with tf.GradientTape() as tape:
            tape.watch(found)
            share = value(found, inputs) / num_replicas()
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tape.gradient(share, found))

    exact = strategy.experimental_local_results(strategy.run(gradient, args=(split(strategy, rows),)))[0].numpy()
    (numeric,) = derivatives(lambda moved: float(value(tf.constant(moved), tf.constant(rows))), [weight], [None])
    return numeric.relative_error(exact)


def main(replicas, names):
    devices = [tf.config.LogicalDeviceConfiguration()] * replicas
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    tf.get_logger().setLevel("ERROR")
    places = [f"/cpu:{index}" for index in range(replicas)]
    several = tf.distribute.MirroredStrategy(places, cross_device_ops=tf.distribute.ReductionToOneDevice())
    one = tf.distribute.get_strategy()
    rows = [name.split("/") for name in names] or [(loss, each) for loss in LOSSES for each in COMPOSITIONS]
    found = {"/".join(row): compare(several, one, *row) for row in rows}
    print(json.dumps({"central_differences": central_differences(several), "rows": found}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
