"""A program: models trained on one device and on replicas by Keras' `fit`, and how far apart their weights are.

python -m tests.conformance.replicated_fit mirrored FOLDER NAME ...
python -m tests.conformance.replicated_fit worker FOLDER NAME ...   (writes what it has trained)
python -m tests.conformance.replicated_fit one FOLDER NAME ...

HOSTS in the environment of a worker is the TF_CONFIG that it sets: the process that it was forked from had none.
"""

import functools
import json
import os
import pathlib
import signal
import sys

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import collective_all_reduce_strategy

from ccp_dml import ChanceConstrainedLoss, ChanceConstrainedModel
from common.losses import ContrastiveLoss, CrossBatchMemoryLoss, MultiSimilarityLoss, ProxyNCALoss
from common.references import ProxyBank
from common.training import (
    CoupledWeightDecay,
    EmbeddingHead,
    EmbeddingModel,
    FusedAdam,
    GradientClipping,
    InBatchPrecision,
    MetricModel,
    ProxyRateOptimizer,
    fit_on_hosts,
    hosts,
)
from gsp_dml import GeneralizedSumPooling, ZeroShotPredictionLoss

keras = tf.keras
BATCH, CLASSES, DIM, STEPS = 12, 4, 8, 20


def initializer(seed):
    return keras.initializers.GlorotUniform(seed=seed)


def network(batch_normalization=False):
    images = keras.Input((6, 6, 3))
    maps = keras.layers.Conv2D(DIM, 3, kernel_initializer=initializer(1))(images)
    if batch_normalization:
        maps = keras.layers.BatchNormalization(synchronized=True)(maps)
    return images, keras.layers.Activation("relu")(maps)


def proxies_and_memory(micro_batch=None):
    images, maps = network()
    outputs = keras.layers.Dense(DIM, kernel_initializer=initializer(2))(keras.layers.GlobalAveragePooling2D()(maps))
    loss = ProxyNCALoss(CLASSES, DIM, initializer=initializer(3))
    loss = CrossBatchMemoryLoss(loss, 2 * BATCH, DIM, start_step=3)
    model = MetricModel(keras.Model(images, outputs), loss, proxy_multiplier=10.0, micro_batch=micro_batch)
    model.compile(keras.optimizers.Adam(0.001), metrics=[InBatchPrecision()])
    return model


def pooled_with_zero_shot():
    images, maps = network(batch_normalization=True)
    pooling = GeneralizedSumPooling(4, memory_size=20, memory_features="local_features", return_attributes=True)
    head = EmbeddingHead(pooling, DIM, project_first=True)
    # Short features: prototypes that were clipped to length 1 lie where their gradient has a kink.
    head.projection.kernel_initializer = keras.initializers.VarianceScaling(0.01, seed=2)
    zero_shot = ZeroShotPredictionLoss(CLASSES, DIM, label_initializer=initializer(3))
    averages = keras.layers.GlobalAveragePooling2D()(maps)
    logits = keras.layers.Dense(CLASSES, kernel_initializer=initializer(4))(averages)
    whole = keras.Model(images, {**head(maps), "logits": logits})
    model = MetricModel(whole, MultiSimilarityLoss(), attribute_loss=zero_shot, attribute_weight=0.1)
    identity = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss={"logits": identity})
    return model


def chance_constrained(micro_batch=None):
    images, maps = network()
    settings = {"kernel_initializer": initializer(2), "kernel_regularizer": keras.regularizers.L2(0.1)}
    outputs = keras.layers.Dense(DIM, **settings)(keras.layers.GlobalAveragePooling2D()(maps))
    proxies = ProxyBank(CLASSES, 2, DIM, initializer=initializer(3))
    loss = ChanceConstrainedLoss(ContrastiveLoss(), proxies, in_batch_weight=0.1)
    settings = {"rate": 0.1, "proxy_multiplier": 2.0, "micro_batch": micro_batch}
    model = ChanceConstrainedModel(keras.Model(images, outputs), loss, **settings)
    model.compile(keras.optimizers.SGD(0.01, global_clipnorm=0.2))
    return model


def embedding_model():
    backbone = keras.Model(*network())
    head = EmbeddingHead(keras.layers.GlobalAveragePooling2D(), DIM)
    head.projection.kernel_initializer = initializer(2)
    model = EmbeddingModel(backbone, head, ProxyNCALoss(CLASSES, DIM, initializer=initializer(3)))
    model.build_from_batch(*next(iter(batches())))
    transforms = [CoupledWeightDecay(0.01, model), GradientClipping(0.5, 0.1)]
    update = ProxyRateOptimizer(FusedAdam(0.001), 10.0, ema_decay=0.5)
    model.compile_training(update, transforms)
    return model


BUILDERS = (proxies_and_memory, pooled_with_zero_shot, chance_constrained, embedding_model)
MODELS = {build.__name__: build for build in BUILDERS}
SHORT = {  # for a few steps on hosts; parts of a host's half of a batch, which has six images
    "memory_in_parts": functools.partial(proxies_and_memory, micro_batch=4),
    "ccp_in_parts": functools.partial(chance_constrained, micro_batch=4),
    "gsp": pooled_with_zero_shot,
}


def batches():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(STEPS * BATCH, 6, 6, 3)).astype("float32")
    labels = np.tile(np.arange(CLASSES), STEPS * BATCH // CLASSES)
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH, drop_remainder=True)


def trained(strategy, name):
    """Weights after 20 steps, and the loss of each epoch of ten."""
    with strategy.scope():
        model = MODELS[name]()
    history = model.fit(batches().repeat(), epochs=2, steps_per_epoch=STEPS // 2, verbose=0)
    return [*weights_of(model), *(np.array(values) for key, values in sorted(history.history.items()))]


def trained_on_hosts(strategy, name, folder):
    """Weights after five steps, with checkpoints at every second one."""
    with strategy.scope():
        model = SHORT[name]()
    fit_on_hosts(model, lambda step: batches().skip(step), folder, max_steps=5, steps_per_checkpoint=2)
    return weights_of(model)


def kill_after_second_checkpoint():
    gathered = hosts._gathered

    def gathered_or_killed(strategy, number):
        return os.kill(os.getpid(), signal.SIGKILL) if number == 4 else gathered(strategy, number)

    hosts._gathered = gathered_or_killed


def weights_of(model):
    parts = [model.network, model.metric_loss] if isinstance(model, MetricModel) else [model]
    weights = [np.array(weight) for part in parts for weight in part.weights]
    if isinstance(model, EmbeddingModel):
        with model.update.averaged_weights():
            weights += [np.array(average) for average in model.trainable_variables]
    return weights


def difference(found, expected):
    return max(float(np.max(np.abs(one - other))) for one, other in zip(found, expected, strict=True))


def mirrored(folder, names):
    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    two = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    one = tf.distribute.get_strategy()

    def weights(strategy, name):
        place = folder / f"{name}-{strategy.num_replicas_in_sync}"
        return trained_on_hosts(strategy, name, place) if name in SHORT else trained(strategy, name)

    return {name: difference(weights(two, name), weights(one, name)) for name in names}


def main(action, folder, *names):
    tf.get_logger().setLevel("ERROR")
    folder = pathlib.Path(folder)
    if action == "mirrored":
        (folder / "differences.json").write_text(json.dumps(mirrored(folder, names)))
        return
    if action == "one":
        host, strategy = "one", tf.distribute.get_strategy()
    else:
        collective_all_reduce_strategy.CollectiveAllReduceExtended._check_health_interval = 1  # seconds
        os.environ["TF_CONFIG"] = os.environ["HOSTS"]
        host = json.loads(os.environ["HOSTS"])["task"]["index"]
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        if action == "failing" and host == 1:
            kill_after_second_checkpoint()
    for name in names:
        run = folder / ("one" if action == "one" else "shared") / name
        np.savez(folder / f"{host}-{name}.npz", *trained_on_hosts(strategy, name, run))


if __name__ == "__main__":
    main(*sys.argv[1:])
