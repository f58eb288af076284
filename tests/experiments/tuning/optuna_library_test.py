"""Optuna as an extra: a clear error without it, and for a database that cannot be opened."""

import sys

import pytest

from common.errors import InvalidInput
from experiments.tuning import optuna_library


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    optuna_library.optuna.cache_clear()
    with pytest.raises(InvalidInput, match="pip install -r requirements-tune.txt"):
        optuna_library.optuna()


@pytest.mark.parametrize("address", ["nonsense", "sqlite:////no/such/folder/tune.db", "oracle9://host/name"])
def test_a_storage_that_cannot_be_opened(address):
    pytest.importorskip("optuna", reason="Optuna is not installed (pip install -r requirements-tune.txt)")
    optuna_library.optuna.cache_clear()
    with pytest.raises(InvalidInput, match="--storage.*expected the address of a database"):
        optuna_library.open_storage(address)
