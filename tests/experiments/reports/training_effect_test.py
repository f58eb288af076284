from experiments.reports.training_effect import rows_without_training, training_did_not_help


def test_an_equal_figure_is_no_gain_and_an_unknown_start_is_silent():
    expected = "training did not beat the untrained backbone's average features (MAP@R 14.00, 14.80 before)"
    assert training_did_not_help(0.14, 0.148) == expected
    assert training_did_not_help(0.148, 0.148) is not None
    assert training_did_not_help(0.15, 0.148) is training_did_not_help(0.15, None) is None


def test_rows_without_training_are_means_of_the_runs_that_have_them():
    half, whole = {"P@1": 0.5, "MAP@R": 0.25}, {"P@1": 1.0, "MAP@R": 0.75}
    first = {"untrained": half, "extras": {"closed_form": {"pca": half, "whitening": whole}}}
    other = {"untrained": whole, "extras": {}}
    rows = rows_without_training([first, other], "8-D")
    means = {row.method: row.cells["8-D", "MAP@R"].mean for row in rows}
    assert means == {"untrained backbone": 0.5, "untrained + pca": 0.25, "untrained + whitening": 0.75}
    assert [row.method for row in rows_without_training([other], "8-D")] == ["untrained backbone"]
    assert rows_without_training([], "8-D") == []
