import pytest

from ccp_dml.projection_conditions import come_apart, fell_behind, started_early


@pytest.mark.parametrize(
    ("values", "is_early"),
    [
        ([0.5], False),  # nobody knows
        ([0.5, 0.6], True),
        ([0.5, 0.6, 0.6, 0.6], True),
        ([0.5, 0.6, 0.6, 0.6, 0.6], False),
        ([0.9, 0.2, 0.3, 0.4], False),
    ],
)
def test_a_loss_has_converged_when_it_has_not_been_better_for_three_evaluations(values, is_early):
    assert (started_early("MAP@R", values, patience=3) is not None) == is_early


def test_a_point_below_the_in_batch_loss_is_behind():
    assert fell_behind("MAP@R", 0.491, 3, best_in_batch=0.5) is None
    assert fell_behind("MAP@R", 0.1, 3, best_in_batch=None) is None
    assert "MAP@R is 0.4890, below the 0.5000" in fell_behind("MAP@R", 0.489, 3, best_in_batch=0.5)


def test_classes_are_far_from_proxies_beyond_a_radius_of_one_where_lengths_mean_something():
    assert come_apart(None, "clip") is come_apart(1.0, "clip") is come_apart(1.2, "none") is None
    assert "1.20, above 1" in come_apart(1.2, "unit")
