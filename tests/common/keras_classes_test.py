import numpy as np
import pytest
import tensorflow as tf

from common.keras_classes import _placeholder, _registered_classes
from common.losses import MultiSimilarityLoss, ProxyAnchorLoss
from common.training import InBatchPrecision, MetricModel
from gsp_dml import GeneralizedSumPooling
from tests.conformance.registered_names_test import registered_classes
from tests.support.command_line import run_program
from tests.support.eager_functions import eagerly

keras = tf.keras
LOAD = """
{imports}
import sys
for path in sys.argv[1:]:
    model = keras.models.load_model(path)
    print(type(model).__name__, type(model.optimizer).__name__)
"""
ORDERS = {  # and why an interpreter of its own is needed
    "import gsp_dml\nfrom tensorflow import keras": "the product is imported before Keras",
    "from tensorflow import keras\nimport ccp_dml": None,
}
OTHER_ORDERS = (
    "import photo_search.index, keras",
    "import common\nfrom tensorflow import keras",
    "import deep_metric_learning, keras",
    "from gsp_dml import GeneralizedSumPooling\nfrom tensorflow import keras",
)


def network():
    pooling = GeneralizedSumPooling(3, prototype_initializer="random")
    return keras.Sequential([keras.Input((2, 2, 4)), pooling, keras.layers.Dense(4)])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, paths = tmp_path_factory.mktemp("models"), []
    plain, held = network(), MetricModel(network(), ProxyAnchorLoss(3, 4), proxy_multiplier=2.0)
    plain.compile("adam", loss=MultiSimilarityLoss(), metrics=[InBatchPrecision()])
    held.compile("adam", metrics=[InBatchPrecision()])
    for name, model in {"plain": plain, "held": held}.items():
        with eagerly(True):
            model.fit(np.ones((4, 2, 2, 4), "float32"), np.array([0, 0, 1, 1]), verbose=0)
        paths.append(str(folder / f"{name}.keras"))
        model.save(paths[-1])
    return paths


@pytest.mark.slow
@pytest.mark.parametrize(
    "imports", [*ORDERS, *(pytest.param(each, marks=pytest.mark.release) for each in OTHER_ORDERS)]
)
def test_compiled_models_are_loaded_in_every_order_of_imports(imports, files):
    arguments = ["-c", LOAD.format(imports=imports), *files]
    finished = run_program(arguments, fresh=ORDERS.get(imports, "the same"))
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == ["Sequential Adam", "MetricModel Adam"]


def test_a_placeholder_for_every_registered_class():
    expected = {(keras.utils.get_registered_name(cls), cls.__module__, cls.__name__) for cls in registered_classes()}
    assert set(_registered_classes()) == expected


def test_a_placeholder_makes_what_the_class_does():
    config = MultiSimilarityLoss(threshold=0.25).get_config()
    loss = _placeholder("common.losses.multi_similarity", "MultiSimilarityLoss").from_config(config)
    assert (type(loss), loss.get_config()) == (MultiSimilarityLoss, config)
