"""A study's folder is read whole or not at all."""

import json

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.evidence.store import CLASS_SCORES, ROWS, StudyRows


def test_a_folder_that_is_not_there_has_no_rows(tmp_path):
    assert StudyRows(tmp_path / "nothing").rows == []


@pytest.mark.parametrize("line", ["{", "[]", "7", '{"kind": "training"}', "\udcff"])
def test_a_damaged_line_is_named(recorded, line):
    text = (recorded / ROWS).read_text()
    (recorded / ROWS).write_bytes((text + line + "\n").encode(errors="surrogateescape"))
    with pytest.raises(InvalidInput, match=r"rows.jsonl, line 7, is no row. Restore the file"):
        StudyRows(recorded)


def test_a_figure_that_was_changed_by_hand_is_found(recorded):
    rows = [json.loads(line) for line in (recorded / ROWS).read_text().splitlines()]
    rows[3]["test"]["MAP@R"] += 1e-4
    (recorded / ROWS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InvalidInput, match="one of them was changed"):
        StudyRows(recorded)


def test_rows_without_class_sums_are_refused(recorded):
    (recorded / CLASS_SCORES).unlink()
    with pytest.raises(InvalidInput, match="has no scores of"):
        StudyRows(recorded)


def test_files_hold_no_time(recorded):
    assert b"PK" in (recorded / CLASS_SCORES).read_bytes()[:4]
    with np.load(recorded / CLASS_SCORES) as archive:
        assert {info.date_time for info in archive.zip.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_sums_are_what_their_rows_say(recorded):
    study = StudyRows(recorded)
    for row in study.rows:
        scored = study.scored(row)
        assert scored.sums["P@1"].sum() / scored.counts.sum() == pytest.approx(row["test"]["P@1"], abs=1e-6)
        assert scored.counts.tolist() == [5] * 6
        assert scored.labels.tolist() == list(range(8, 14))
