"""Which devices and precisions go together: a table of combinations, refused by name, and their place in hashes."""

import pytest

from common.errors import InvalidInput
from experiments.settings.recipes import resolve


def config(**values):
    return resolve("glyphs", "pnca", "gap", "thesis", "demo", values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"precision": "float16"}, "--precision: received 'float16', expected one of float32, mixed_float16"),
        ({"strategy": "multi_worker", "replicas": 2}, "--strategy: received 'multi_worker', expected one of none, mir"),
        ({"strategy": "mirrored"}, "--replicas: received None, expected 2 or more with --strategy=mirrored"),
        ({"strategy": "mirrored", "replicas": 1}, "--replicas: received 1, expected a number in"),
        ({"strategy": "mirrored", "replicas": 5}, "--replicas: received 5, expected a divisor of the batch of"),
        ({"replicas": 2}, "--replicas: received 2, expected none without --strategy=mirrored"),
        ({"strategy": "mirrored", "replicas": 2, "jit_compile": True}, "--jit_compile: received True, expected no XLA"),
        ({"strategy": "mirrored", "replicas": 2, "trained_from": "head"}, "--trained_from: received 'head', expected"),
        (
            {"strategy": "mirrored", "replicas": 2, "precision": "mixed_bfloat16"},
            "--precision: received 'mixed_bfloat16', expected float32 with --strategy=mirrored",
        ),
        ({"precision": "mixed_float16", "trained_from": "head"}, "--precision: received 'mixed_float16', expected fl"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(values, message):
    with pytest.raises(InvalidInput, match=f"Invalid {message}"):
        config(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"precision": "mixed_float16"},
        {"precision": "mixed_bfloat16", "jit_compile": True},
        {"strategy": "mirrored", "replicas": 2},
    ],
)
def test_what_goes_together_is_in_the_hash(values):
    stated = config(**values)
    assert stated.hash("data") != config().hash("data")
    assert values.items() <= stated.stored().items()


def test_stated_defaults_leave_the_hash_as_it_was():
    stated = config(precision="float32", strategy="none", jit_compile=False)
    assert stated.hash("data") == config().hash("data")
