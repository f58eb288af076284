import types

import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import ContrastiveLoss
from common.training import ProxyRateOptimizer, devices
from common.training.training_session import training_session

keras = tf.keras


@pytest.fixture(autouse=True)
def recent_keras(monkeypatch):
    """Older versions are refused on several replicas before anything else."""
    monkeypatch.setattr(devices, "KERAS_VERSION", (3, 10))


def strategy_of(kind, replicas):
    """What `check_devices` looks at of a strategy, without its devices."""
    strategy = object.__new__(kind)
    strategy._extended = types.SimpleNamespace(_num_replicas_in_sync=replicas)
    return strategy


def check(kind, *layers, replicas=2, optimizer=None, jit_compile=False):
    with pytest.raises(InvalidInput) as caught:
        devices.check_devices(model_of(kind, replicas, *layers), optimizer, jit_compile=jit_compile)
    return str(caught.value)


def model_of(kind, replicas, *layers):
    strategy = strategy_of(kind, replicas)
    flattened = types.SimpleNamespace(distribute_strategy=strategy)
    flattened._flatten_layers = lambda **_: list(layers)
    return flattened


MIRRORED, SEVERAL_HOSTS = tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy


def test_strategies_without_a_common_batch_are_refused():
    text = check(tf.distribute.experimental.ParameterServerStrategy, replicas=1)
    assert text.startswith("Invalid strategy: received 'ParameterServerStrategy")
    assert "expected MirroredStrategy or MultiWorkerMirroredStrategy" in text
    assert check(tf.distribute.TPUStrategy).startswith("Invalid strategy: received 'TPUStrategy")


@pytest.mark.parametrize(("version", "refused"), [((2, 15), False), ((3, 5), True), ((3, 9), True), ((3, 10), False)])
def test_several_replicas_of_an_older_keras_are_refused(version, refused, monkeypatch):
    monkeypatch.setattr(devices, "KERAS_VERSION", version)
    text = check(MIRRORED, jit_compile=True)
    assert text.startswith("Invalid version of Keras: received '3." if refused else "Invalid jit_compile")


@pytest.mark.parametrize("kind", [MIRRORED, SEVERAL_HOSTS])
def test_xla_and_a_scaled_loss_on_several_replicas_are_refused(kind):
    assert check(kind, jit_compile=True).startswith("Invalid jit_compile: received True, expected False on several")
    text = check(kind, optimizer=devices.scaled_optimizer(keras.optimizers.SGD(), "mixed_float16"))
    assert text.startswith("Invalid optimizer: received 'LossScaleOptimizer', expected no scaled loss on several")
    assert "mixed_bfloat16" in text


@pytest.mark.parametrize("kind", [MIRRORED, SEVERAL_HOSTS])
def test_batch_normalisation_by_parts_of_a_batch_is_refused(kind):
    layer = keras.layers.BatchNormalization(name="third")
    text = check(kind, keras.layers.Dense(2), layer)
    assert text.startswith("Invalid batch normalisation on 2 replicas: received 'third', expected layers that are froz")
    layer.trainable = False
    devices.check_devices(model_of(kind, 2, layer), None, jit_compile=False)
    synchronized = keras.layers.BatchNormalization(synchronized=True)
    devices.check_devices(model_of(kind, 2, synchronized), None, jit_compile=False)


def test_one_device_takes_everything():
    layer = keras.layers.BatchNormalization()
    devices.check_devices(model_of(MIRRORED, 1, layer), None, jit_compile=True)


def test_batch_normalisation_that_trains_is_synchronised_where_keras_can():
    trains, frozen = keras.layers.BatchNormalization(), keras.layers.BatchNormalization(trainable=False)
    if not devices.IS_KERAS_3:
        with pytest.raises(InvalidInput, match="Invalid batch normalisation of Keras 2"):
            devices.synchronize_batch_normalization(model_of(MIRRORED, 2, trains, frozen))
        devices.synchronize_batch_normalization(model_of(MIRRORED, 2, frozen))
    else:
        devices.synchronize_batch_normalization(model_of(MIRRORED, 2, trains, frozen))
        assert (trains.synchronized, frozen.synchronized) == (True, False)


def test_more_replicas_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["one", "two"])
    devices.check_replicas(2)
    with pytest.raises(InvalidInput, match="Invalid replicas: received 3, expected up to 2, the GPUs of this host"):
        devices.check_replicas(3)


def test_virtual_devices_are_made_before_tensorflow_begins_only():
    assert devices.mirrored_strategy(1) is tf.distribute.get_strategy()
    tf.constant(1.0)
    with pytest.raises(InvalidInput, match="Invalid replicas: received 7, expected 1, the virtual devices"):
        devices.mirrored_strategy(7)


@pytest.mark.parametrize("precision", devices.PRECISIONS)
def test_layers_made_inside_have_the_precision(precision):
    with devices.precision_policy(precision):
        layer, loss = keras.layers.Dense(2), ContrastiveLoss()
    assert layer.compute_dtype == precision.removeprefix("mixed_")
    assert loss.compute_dtype == "float32"
    assert keras.layers.Dense(2).compute_dtype == "float32"


def test_float16_alone_scales_the_loss():
    optimizer = keras.optimizers.SGD(0.1)
    assert devices.scaled_optimizer(optimizer, "float32") is optimizer
    assert devices.scaled_optimizer(optimizer, "mixed_bfloat16") is optimizer
    scaled = devices.scaled_optimizer(optimizer, "mixed_float16")
    assert isinstance(scaled, keras.mixed_precision.LossScaleOptimizer)
    assert isinstance(ProxyRateOptimizer(scaled, 2.0).proxy_optimizer, keras.mixed_precision.LossScaleOptimizer)


def test_a_training_session_has_full_float32():
    is_enabled = tf.config.experimental.tensor_float_32_execution_enabled
    before = is_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(True)
    try:
        with training_session(0):
            assert not is_enabled()
        assert is_enabled()
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
