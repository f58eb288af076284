import pathlib
import re

import numpy as np
import tensorflow as tf

keras = tf.keras
README = pathlib.Path(__file__).resolve().parents[2] / "ccp_dml" / "README.md"


def test_the_example_trains_and_changes_proxies():
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(8), 6)
    patterns = rng.normal(128, 40, (8, 6, 6, 1))
    images = np.clip(patterns[labels] + rng.normal(0, 30, (48, 6, 6, 1)), 0, 255).astype(np.uint8)
    keras.utils.set_random_seed(0)
    layers = [keras.Input((6, 6, 1)), keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(32)]
    scope = {
        "network": keras.Sequential(layers),
        "images": images,
        "labels": labels,
        "num_classes": 8,
        "new_images": images[::-1],
        "new_labels": labels[::-1],
        "epochs": 25,
        "steps_per_evaluation": 6,
    }
    exec(compile(code, str(README), "exec"), scope)  # noqa: S102
    history, model = scope["history"], scope["model"]
    assert sum(record["steps"] for record in history) == 150
    assert len(history) > 1
    assert all(record["covering_radius_before"] > 0 for record in history[1:])
    losses = model.history.history["loss"]
    within_first_problem = losses[: history[0]["steps"] // 6]  # new proxies begin with a loss of their own
    assert 0 < min(within_first_problem) < losses[0]
    assert np.array(scope["proxies"].proxies).shape == (32, 32)
