"""Labels as texts, and which values are none."""

from __future__ import annotations

import decimal
import math
import os
import unicodedata

import numpy as np

from common.errors import invalid

_OF_SEVERAL = (list, tuple, set, frozenset, dict, np.ndarray)


def label_text(value: object) -> str:
    """Return a label as text, "" for none.

    None, a NaN, and blanks are no label; the text "nan" is one. Texts are brought to Unicode's composed form (NFC), so
    that equal labels of macOS and of Windows are equal.

    Raises:
        InvalidInput: a list or another collection.

    Examples:
        >>> [label_text(value) for value in ("jay", " nan", 3, 3.0, 0.5, float("nan"), None)]
        ['jay', 'nan', '3', '3', '0.5', '', '']
    """
    return unicodedata.normalize("NFC", cell_text(value).strip())


def cell_text(value: object) -> str:
    """Return a value of a table as text, "" for a missing one.

    Whole numbers lose their ".0", as in a table of texts. Bytes are file names, perhaps not UTF-8.

    Raises:
        InvalidInput: a list or another collection.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return os.fsdecode(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, _OF_SEVERAL):
        raise invalid("value", received=value, expected="a single text or number")
    if value is None or type(value).__name__ == "NAType" or value != value:  # NA of pandas has no truth value
        return ""
    if isinstance(value, (float, np.floating, decimal.Decimal)) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)
