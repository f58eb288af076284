"""A study's folder is read whole or not at all."""

import json
import shutil
import threading

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.evidence.store import CLASS_SCORES, ROWS, StudyRows, joined_studies, locked


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


def test_a_row_that_lacks_a_figure_is_refused(recorded):
    rows = [json.loads(line) for line in (recorded / ROWS).read_text().splitlines()]
    del rows[3]["test"]["MAP@R"]
    (recorded / ROWS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InvalidInput, match="MAP@R"):
        StudyRows(recorded)


def test_one_process_at_a_time_holds_a_study(tmp_path):
    has_entered = threading.Event()

    def enter():
        with locked(tmp_path / "study"):
            has_entered.set()

    with locked(tmp_path / "study"):
        thread = threading.Thread(target=enter)
        thread.start()
        assert not has_entered.wait(0.2)
    assert has_entered.wait(10)
    thread.join()


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


def test_a_run_of_two_studies_counts_once_and_has_one_result(recorded):
    other = recorded.parent / "other"
    shutil.copytree(recorded, other)
    rows = [json.loads(line) for line in (other / ROWS).read_text().splitlines()]
    kept = [row for row in rows if row["label"] == "pnca+gap"]
    kept[0]["command"] = "python -m another"
    (other / ROWS).write_text("".join(json.dumps(row) + "\n" for row in kept))
    joined = joined_studies([other, recorded])
    assert joined.name == "other"
    assert [row["label"] for row in joined.rows] == [row["label"] for row in rows]
    assert joined.rows[0]["command"] == "python -m another"
    kept[0]["steps"] += 1
    (other / ROWS).write_text("".join(json.dumps(row) + "\n" for row in kept))
    with pytest.raises(InvalidInput, match="another result of .*differs in: steps"):
        joined_studies([other, recorded])
