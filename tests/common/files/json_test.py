import pytest

from common.files import read_json, write_json


def test_nan_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "value.json", {"a": float("nan")})


@pytest.mark.parametrize("text", ["[" * 10**5, "9" * 5000, '{"status": "finished"}]', "NaN"])
def test_odd_json_is_damaged_and_no_error(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    assert read_json(tmp_path / "result.json") is None
