import decimal

import numpy as np
import pytest

from common.data.labels import label_text
from common.errors import InvalidInput


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((none, "") for none in (None, "", " \t", float("nan"), np.float32("nan"), decimal.Decimal("NaN"))),
        *((text, text) for text in ("nan", "None", "1.0", "-1")),
        *((3, "3"), (3.0, "3"), (np.float32(3), "3"), (np.int64(-1), "-1"), (decimal.Decimal("3.00"), "3")),
        *((0.5, "0.5"), (float("inf"), "inf"), (True, "True"), (b"jay", "jay"), (" jay ", "jay")),
        ("cafe\u0301", "caf\u00e9"),
    ],
)
def test_values_become_labels_by_one_rule(value, text):
    assert label_text(value) == text


@pytest.mark.parametrize("value", [[1, 2], ("a",), {"a": 1}, np.arange(2)])
def test_a_label_of_several_values_is_refused(value):
    with pytest.raises(InvalidInput, match="a single text or number"):
        label_text(value)
