"""One rule of whether training helped."""

from experiments.reports.training_effect import training_did_not_help


def test_equal_is_no_gain():
    expected = "training did not beat the untrained backbone's average features (MAP@R 14.00, 14.80 before)"
    assert training_did_not_help(0.14, 0.148) == expected
    assert training_did_not_help(0.148, 0.148) is not None


def test_a_gain_and_an_unknown_start_are_silent():
    assert training_did_not_help(0.15, 0.148) is None
    assert training_did_not_help(0.15, None) is None
