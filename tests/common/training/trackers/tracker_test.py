"""What trackers are told of a run."""

from common.training.trackers.tracker import curve_values, result_values


def test_curves_are_loss_learning_rate_and_validation():
    record = {"step": 4, "loss": 1, "seconds": 3.5, "validation": {"MAP@R": 0.5}}
    assert curve_values(record) == {"loss": 1.0, "validation/MAP@R": 0.5}
    assert curve_values({**record, "learning_rate": 0.01})["learning_rate"] == 0.01


def test_a_result_is_its_numbers_of_the_test_set_and_of_the_selected_validation():
    result = {"test": {"MAP@R": 0.25, "note": "text"}, "validation": {"best": {"step": 4}}, "steps": 8}
    assert result_values(result) == {"test/MAP@R": 0.25, "best/step": 4.0}
    assert result_values({}) == {}
