from common.records.training_cost import TrainingCost


def test_sessions_add_up_also_with_one_that_measured_energy(monkeypatch):
    now = iter([0.0, 10.0, 100.0, 105.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    first = TrainingCost()
    state = first.state()
    assert state == {"seconds": 10.0}
    second = TrainingCost()
    second.restore({**state, "joules": {"cpu_packages": 50.0, "gpus": None}}, [])  # as older checkpoints have it
    assert second.as_dict() == {"train_seconds": 15.0}
