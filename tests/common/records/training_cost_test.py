from types import SimpleNamespace

import pytest

from common.records.training_cost import TrainingCost


def meter(*values):
    left = iter(values)
    return SimpleNamespace(joules=lambda: next(left))


@pytest.mark.parametrize(("joules", "expected"), [(50.0, 75.0), (None, None)])
def test_sessions_add_up_and_one_that_could_not_read_leaves_no_figure(monkeypatch, joules, expected):
    now = iter([0.0, 10.0, 100.0, 105.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    first = TrainingCost({"cpu_packages": meter(joules), "gpus": None})
    state = first.state()
    assert state == {"seconds": 10.0, "joules": {"cpu_packages": joules, "gpus": None}}
    second = TrainingCost({"cpu_packages": meter(25.04), "gpus": None})
    second.restore(state, [])
    assert second.as_dict() == {"train_seconds": 15.0, "energy_joules": {"cpu_packages": expected, "gpus": None}}


def test_long_periods_are_read_in_between(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    readings = []
    cost = TrainingCost({"cpu_packages": SimpleNamespace(joules=lambda: readings.append(now[0]) or 0.0)})
    for now[0] in (1.0, 59.0, 61.0, 62.0, 200.0):
        cost.on_train_batch_end(0)
    assert readings == [61.0, 200.0]


def test_the_meters_of_this_machine_give_a_figure_or_none():
    found = TrainingCost().as_dict()
    assert found["train_seconds"] == pytest.approx(0.0, abs=10.0)
    assert set(found["energy_joules"]) == {"cpu_packages", "gpus"}
    assert all(value is None or value >= 0.0 for value in found["energy_joules"].values())
