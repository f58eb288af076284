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
        ({"fold_batch_norm": True}, "--fold_batch_norm: received True, expected batch normalisation that is frozen"),
        (
            {"fold_batch_norm": True, "frozen_batch_norm": True, "trained_from": "head"},
            "--fold_batch_norm: received True, expected off with cached features of the whole backbone",
        ),
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
        {"fold_batch_norm": True, "frozen_backbone": True},
        {"fold_batch_norm": True, "frozen_batch_norm": True, "trained_from": "layer3"},
    ],
)
def test_what_goes_together_is_in_the_hash(values):
    stated = config(**values)
    assert stated.hash("data") != config().hash("data")
    assert values.items() <= stated.stored().items()


def test_stated_defaults_leave_the_hash_as_it_was():
    stated = config(precision="float32", strategy="none", jit_compile=False, fold_batch_norm=False)
    assert stated.hash("data") == config().hash("data")


def test_folding_alone_is_another_configuration():
    frozen, folded = (config(frozen_batch_norm=True, fold_batch_norm=fold) for fold in (False, True))
    assert frozen.hash("data") == config(frozen_batch_norm=True).hash("data") != folded.hash("data")
    assert folded.stored() == {**frozen.stored(), "fold_batch_norm": True}
