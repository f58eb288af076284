import dataclasses
import itertools
import json
import os
import pathlib
import shutil
import threading

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.reports.scores import Scores, figures_row
from experiments.reports.tables import figures_table
from experiments.rows.store import CLASS_SCORES, PICTURES, ROWS, StudyRows, locked
from tools.documents.tables import joined_studies


def test_rows_of_before_a_column_stay_readable_and_show_a_dash(recorded):
    study = StudyRows(recorded)
    newer = study.rows[3:]
    for scored in newer:
        scored["test"]["Hit"] = scored["test"]["P@1"]
    assert study.merge([dataclasses.replace(of, sums={**of.sums, "Hit": of.sums["P@1"]}) for of in newer]) == len(newer)
    study.save()
    found = StudyRows(recorded)
    held = ["Hit" in row.sums for row in found.rows]
    assert held == [False] * 3 + [True] * len(newer)
    older = found.rows[0]
    assert found.merge([dataclasses.replace(older, sums={"MAP@R": older.sums["MAP@R"]})]) == 0
    row = figures_row({"old": Scores([dataclasses.replace(older, sums={"MAP@R": older.sums["MAP@R"]})])}, "old", {})
    other = figures_row({"new": Scores([older])}, "new", {})
    assert cells_of(figures_table([other, row]).as_markdown(), "old")[1] == "-"
    with pytest.raises(InvalidInput, match="recorded without Hit .they hold P@1, MAP@R"):
        Scores([older]).estimate("Hit")


def cells_of(markdown, label):
    return next([cell.strip() for cell in line.split("|")[1:-1]] for line in markdown.splitlines() if label in line)


@pytest.mark.parametrize("line", ["{", "[]", "7", '{"kind": "training"}', "\udcff"])
def test_a_damaged_line_is_named(recorded, line):
    text = (recorded / ROWS).read_text()
    (recorded / ROWS).write_bytes((text + line + "\n").encode(errors="surrogateescape"))
    with pytest.raises(InvalidInput, match=r"rows.jsonl, line 7, is no row \(.*\). Restore the file"):
        StudyRows(recorded)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": ["MAP@R"]}, r"test: received .*, expected an object"),
        ({"test": "high"}, "test: received 'high', expected an object"),
        ({"test": {"MAP@R": float("nan")}}, "test MAP@R: received nan, expected a number"),
        ({"fold": "0"}, "fold: received '0', expected an integer from 0"),
        ({"kind": "other"}, "kind: received 'other', expected one of collection, training"),
        ({"kind": "collection"}, "members: received nothing, expected a list"),
        ({"configuration": None}, "configuration: received None, expected an object"),
        ({"configuration": {}}, "configuration dataset: received nothing, expected a text"),
        ({"num_folds": "4"}, "configuration num_folds: received '4', expected an integer from 1"),
        ({"num_folds": None}, "configuration num_folds: received None, expected an integer from 1"),
        ({"pooling": 7}, "configuration pooling: received 7, expected a text"),
    ],
)
def test_rows_that_no_run_makes_are_named(recorded, changes, message):
    first, *others = (recorded / ROWS).read_text().splitlines()
    row = json.loads(first)
    of_configuration = {name: value for name, value in changes.items() if name in row["configuration"]}
    row["configuration"] |= of_configuration
    lines = [json.dumps({**row, **{name: changes[name] for name in changes.keys() - of_configuration}}), *others]
    (recorded / ROWS).write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(InvalidInput, match=rf"rows.jsonl, line 1, is no row \({message}") as raised:
        StudyRows(recorded)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("MAP@R", lambda sums: sums[1:]),
        ("P@1", lambda sums: sums.astype(str)),
        ("P@1", lambda sums: sums * np.nan),
        ("labels", None),
        ("labels", lambda labels: labels[1:]),
        ("counts", lambda counts: 0 * counts),
    ],
)
def test_class_sums_that_do_not_fit_their_rows_are_named(recorded, name, spoil):
    arrays = dict(np.load(recorded / CLASS_SCORES))
    (key,) = (key for key in arrays if key.endswith(f"/{name}"))
    value = arrays.pop(key)
    np.savez(recorded / CLASS_SCORES, **arrays, **({key: spoil(value)} if spoil else {}))
    with pytest.raises(InvalidInput, match=r"Invalid .*class_scores.npz, .*Restore both: git checkout") as raised:
        StudyRows(recorded)
    assert "\n" not in str(raised.value)


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


def test_what_a_killed_writer_left_is_removed(recorded):
    leftover = recorded / ".class_scores.npz.new.0123456789abcdef.tmp"
    leftover.write_bytes(b"half")
    with locked(recorded):
        assert not leftover.exists()
    assert len(StudyRows(recorded).rows) > 0


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
        assert row.sums["P@1"].sum() / row.counts.sum() == pytest.approx(row["test"]["P@1"], abs=1e-6)
        assert row.counts.tolist() == [5] * 6
        assert row.labels.tolist() == list(range(8, 14))


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


class Killed(BaseException):
    """In place of SIGKILL: nothing but clean-up of names that no reader looks at follows."""


def other_result(study):
    """Another result of a study's first run, with a picture."""
    row = study.rows[0]
    sums = {name: values / 2 for name, values in row.sums.items()}
    test = {**row["test"], **{name: float(values.sum() / row.counts.sum()) for name, values in sums.items()}}
    return dataclasses.replace(row, json={**row, "test": test}, sums=sums, arrays={"x": np.ones(2)})


def test_a_kill_at_any_moment_leaves_the_old_study_or_the_new_one(recorded, tmp_path, monkeypatch):
    def files(folder):
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}

    def merged(folder):
        study = StudyRows(folder)
        study.merge([other], replace=True)
        return study

    before, expected = StudyRows(recorded).rows, tmp_path / "expected"
    other = other_result(StudyRows(recorded))
    shutil.copytree(recorded, expected)
    merged(expected).save()
    found, really = set(), (os.replace, pathlib.Path.unlink)
    for steps in itertools.count():
        folder, left = tmp_path / f"killed{steps}", [steps]
        shutil.copytree(recorded, folder)
        study = merged(folder)

        def step(function, *arguments, left=left, **options):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return function(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", lambda *paths, step=step: step(really[0], *paths))
            patch.setattr(pathlib.Path, "unlink", lambda *path, step=step, **given: step(really[1], *path, **given))
            try:
                study.save()
                is_killed = False
            except Killed:
                is_killed = True
        rows = StudyRows(folder).rows
        assert rows in (before, study.rows)
        found.add(rows == before)
        merged(folder).save()  # the same command again
        assert files(folder) == files(expected)
        if not is_killed:
            break
    assert found == {True, False}
    assert steps > 5
    assert set(files(folder)) == {CLASS_SCORES, PICTURES, ROWS}
