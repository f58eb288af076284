import json

import tensorflow as tf

from experiments.environment import environment


def test_versions_and_hardware_are_named_in_json_values():
    found = environment()
    assert json.loads(json.dumps(found)) == found
    assert found["tensorflow"] == tf.__version__
    assert found["keras"][0] in "23"
    assert found["processors"] >= 1
    assert len(found["accelerators"]) == len(tf.config.list_physical_devices("GPU"))
