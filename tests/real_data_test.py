"""Where tests look for real images."""

from tests.real_data import VARIABLE, folder_of_real_data, why_missing


def test_the_variable_goes_before_the_folder_beside_the_repository(tmp_path):
    assert folder_of_real_data({VARIABLE: "/elsewhere"}, tmp_path).as_posix() == "/elsewhere"
    assert folder_of_real_data({}, tmp_path) == folder_of_real_data({VARIABLE: ""}, tmp_path) == tmp_path
    assert folder_of_real_data({}, tmp_path / "missing") is None


def test_a_skipped_test_says_what_to_set(tmp_path):
    assert why_missing("images", None) == "no real images: DML_TEST_DATA names no folder with images"
    assert why_missing("images", tmp_path) == f"no real images at {tmp_path / 'images'} (DML_TEST_DATA)"
