"""The examples in docstrings of public names run, with every public name, NumPy and TensorFlow imported."""

import doctest
import importlib
import inspect
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.support.sources import PACKAGES, SOURCES, module_name

NOT_RUN = {  # and why
    "load_glyph_collage": "draws the whole data set; its test draws a small one",
    "PolicyAdaptedSampling": "trains; its test does, too",
    "StepSchedule": "trains; its test does, too",
    "SamplingRecord": "trains; its test does, too",
    "AlternatingProjections": "trains; the example of ccp_dml/README.md is run by its own test",
}


def documented() -> dict[str, list[doctest.Example]]:
    """The examples of each public name of the libraries that has any."""
    parser, found = doctest.DocTestParser(), {}
    for name, symbol in public_names().items():
        if inspect.isclass(symbol) or inspect.isfunction(symbol):
            found[name] = parser.get_examples(inspect.cleandoc(symbol.__doc__ or ""))
    return {name: examples for name, examples in found.items() if examples}


def public_names() -> dict[str, object]:
    names = {}
    for path in SOURCES:
        module = module_name(path)
        if path.name == "__init__.py" and module.split(".")[0] in set(PACKAGES) - {"experiments"}:
            imported = importlib.import_module(module)
            names |= {name: getattr(imported, name) for name in getattr(imported, "__all__", ())}
    return names


EXAMPLES = documented()


def what_examples_assume() -> dict[str, object]:
    """Small arrays and a network under the names that the examples take for granted."""
    rng = np.random.default_rng(0)
    layers = [tf.keras.Input((4,)), tf.keras.layers.Dense(128)]
    network, names = tf.keras.Sequential(layers), public_names()
    labels = np.repeat(np.arange(75), 14)
    images = rng.normal(size=(len(labels), 4)).astype("float32")
    return names | {
        "np": np,
        "tf": tf,
        "embeddings": tf.random.normal([32, 128]),
        "labels": tf.repeat(tf.range(8), 4),
        "outputs": {"attributes": tf.nn.softmax(tf.random.normal([32, 64]))},
        "model": types.SimpleNamespace(
            embed=lambda batches: np.concatenate([network(batch) for batch in batches]),
            compile_training=lambda *args, **kwargs: None,
        ),
        "examples": names["Examples"](labels, images),
        "images": images,
        "backbone": network,
        "head": tf.keras.Sequential([tf.keras.Input((128,)), tf.keras.layers.Dense(128)]),
        "update": None,
        "decay": None,
    }


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in NOT_RUN])
def test_examples_run(name):
    test = doctest.DocTest(EXAMPLES[name], what_examples_assume(), name, None, 0, None)
    for example in test.examples:
        if not example.want:  # an expression whose value is not said
            example.source = f"_ = {example.source}" if is_expression(example.source) else example.source
    runner, told = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE), []
    runner.run(test, out=told.append)
    assert runner.failures == 0, "".join(told)


def is_expression(source: str) -> bool:
    try:
        compile(source, "example", "eval")
    except SyntaxError:
        return False
    return True


def test_what_is_not_run_has_examples():
    assert set(NOT_RUN) - set(EXAMPLES) == set()


def test_a_wrong_output_is_found():
    (example,) = doctest.DocTestParser().get_examples(">>> 1 + 1\n3\n")
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTest([example], {}, "planted", None, 0, None), out=lambda text: None)
    assert runner.failures == 1
