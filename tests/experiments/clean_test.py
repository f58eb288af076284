import contextlib
import io
import os
import re
import sys
import time

import numpy as np
import pytest
from PIL import Image

from common.data import load_image_folder, with_copies
from common.files import write_json
from common.records import RunDirectory
from experiments.clean import folders_in
from tests.support.command_line import check_clean_failure, run_here

CONFIG = {"dataset": "glyphs", "loss": "c2", "pooling": "gap", "fold": 0, "repeat": 0}


@pytest.fixture
def places(tmp_path):
    """A cache of prepared images, of both kinds, and two runs of which one has finished."""
    for number in range(8):
        folder = tmp_path / "photos" / f"class{number // 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((20, 20, 3), 30 * number, np.uint8)).save(folder / f"{number}.png")
    cache, runs = tmp_path / "cache", tmp_path / "runs"
    dataset = load_image_folder(str(tmp_path / "photos"))
    with_copies(dataset, str(cache / "images" / "folder"), 16)
    with_copies(dataset, str(cache / "images" / "folder"), 16, copies="compressed")
    store = cache / "features" / "glyphs" / "0123456789abcdef"
    store.mkdir(parents=True)
    (store / "activations-00000-00ff.npy").write_bytes(bytes(100))
    (store / "origin.json").write_text("{}")
    for name in ("fold0-repeat0", "fold1-repeat0"):
        run = RunDirectory(runs / "fair" / "glyphs" / "c2+gap-0123456789" / name, CONFIG)
        run.append_metrics({"step": 1})
        if name[4] == "0":
            run.write_result({"score": 1.0}, {"queries": np.eye(2)}, [np.eye(2)])
    return tmp_path


def clean(places, *arguments):
    folders = [f"--cache_dir={places}/cache", f"--runs_dir={places}/runs"]
    return run_here("experiments.clean", *folders, *arguments)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def caches_of(places):
    return [each for each in folders_in(str(places / "cache"), str(places / "runs")) if each.kind == "cache"]


def runs_of(places):
    return sorted(path.parent.name for path in (places / "runs").rglob("config.json"))


def test_the_list_has_everything_and_removes_nothing(places):
    before = files(places)
    finished = clean(places)
    assert finished.returncode == 0, finished.stderr
    for kind, count in (("cache", 3), ("finished run", 1), ("unfinished run", 1)):
        assert len(re.findall(rf"  {kind} +0\.0 ", finished.stdout)) == count, kind
    assert "Choose by --cache or --runs" in finished.stdout
    assert max(map(len, finished.stdout.splitlines()[1:])) <= 100
    assert files(places) == before


def test_caches_are_removed_and_made_again(places):
    (places / "cache" / "models").mkdir()  # of photo search
    (places / "cache" / "models" / "0123.keras").touch()
    finished = clean(places, "--cache", "--yes")
    assert finished.returncode == 0, finished.stderr
    assert "4 of 4 removed" in finished.stdout
    left = files(places / "cache")
    assert [name for name in left if name.endswith((".jpg", ".npy", ".keras"))] == []
    assert runs_of(places) == ["fold0-repeat0", "fold1-repeat0"]
    prepared = with_copies(load_image_folder(str(places / "photos")), str(places / "cache" / "images" / "folder"), 16)
    assert all(map(os.path.exists, prepared.train.paths))


@pytest.mark.parametrize(
    ("chosen", "left"), [("unfinished", ["fold0-repeat0"]), ("all", [])], ids=["unfinished", "all"]
)
def test_runs_are_removed_as_chosen(places, chosen, left):
    finished = clean(places, f"--runs={chosen}", "--yes")
    assert f"{2 - len(left)} of {2 - len(left)} removed" in finished.stdout
    assert runs_of(places) == left
    assert (places / "runs").is_dir()
    assert (places / "runs" / "fair").exists() == bool(left)
    assert len(caches_of(places)) == 3


def test_only_old_ones(places):
    old = time.time() - 40 * 86400
    for path in (places / "runs").rglob("fold1-repeat0/*"):
        os.utime(path, (old, old))
    finished = clean(places, "--runs=all", "--cache", "--older_than_days=30", "--yes")
    assert "1 of 1 removed" in finished.stdout
    assert "fold0-repeat0" not in finished.stdout
    assert runs_of(places) == ["fold0-repeat0"]
    assert clean(places, "--older_than_days=-1").returncode == 2


def test_the_caches_used_last_are_kept(places):
    dataset = load_image_folder(str(places / "photos"))
    for place, each in enumerate(caches_of(places)):
        for path in (*each.path.rglob("*"), each.path):
            os.utime(path, (1e9 + place, 1e9 + place))
    with_copies(dataset, str(places / "cache" / "images" / "folder"), 16)  # uses the copies, and writes nothing
    used, *others = sorted(caches_of(places), key=lambda each: each.days)
    assert used.path.name == "shorter_side_16"
    most = (used.num_bytes + others[0].num_bytes) / 1e9
    assert "1 of 1 removed" in clean(places, "--cache", f"--keep_gb={most}", "--yes").stdout
    assert {each.path for each in caches_of(places)} == {used.path, others[0].path}
    assert "Nothing to remove" in clean(places, "--cache", f"--keep_gb={most}", "--yes").stdout
    check_clean_failure(clean(places, "--keep_gb=1"), "--keep_gb", "only --cache removes")


def test_a_run_in_progress_and_all_caches_stay(places):
    folder = next((places / "runs").rglob("fold1-repeat0"))
    before = files(places)
    with RunDirectory(folder, CONFIG).locked():
        finished = clean(places, "--runs=unfinished", "--cache", "--yes")
    assert "run in progress" in finished.stdout
    assert "Caches stay while a run is in progress." in finished.stdout
    assert set(files(places)) == {*before, str((folder / "lock").relative_to(places))}


def test_a_run_that_begins_after_the_question_stays(places, monkeypatch):
    folder = next((places / "runs").rglob("fold1-repeat0"))
    with contextlib.ExitStack() as stack:
        terminal = io.StringIO()
        terminal.isatty = lambda: True
        terminal.readline = lambda *_: stack.enter_context(RunDirectory(folder, CONFIG).locked()) or "y\n"
        monkeypatch.setattr(sys, "stdin", terminal)
        finished = clean(places, "--runs=all")
    assert "1 of 2 removed" in finished.stdout
    assert runs_of(places) == ["fold1-repeat0"]


def test_links_and_runs_of_other_programs_stay(places, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "origin.json").write_text("{}")
    os.symlink(elsewhere, next((places / "cache").rglob("prepared/shorter_side_16")) / "link")
    os.symlink(elsewhere, places / "cache" / "features" / "glyphs" / "ffff")
    write_json(places / "runs" / "other" / "config.json", {"name": "of another program"})
    assert "5 of 5 removed" in clean(places, "--runs=all", "--cache", "--yes").stdout
    assert files(elsewhere) == ["origin.json"]
    assert runs_of(places) == ["other"]


def test_without_a_terminal_it_refuses(places, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    check_clean_failure(clean(places, "--cache"), "--yes", "no terminal")
    assert len(caches_of(places)) == 3


@pytest.mark.parametrize(("answer", "count"), [("y\n", 0), ("\n", 3), ("no\n", 3)], ids=["yes", "enter", "no"])
def test_it_asks_first(places, monkeypatch, answer, count):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    finished = clean(places, "--cache")
    assert "Remove 3 of these" in finished.stdout
    assert ("Nothing was removed." in finished.stdout) == bool(count)
    assert len(caches_of(places)) == count


def test_folders_that_do_not_exist(tmp_path):
    with contextlib.chdir(tmp_path) if hasattr(contextlib, "chdir") else contextlib.nullcontext():
        finished = clean(tmp_path / "none", "--cache", "--runs=all", "--yes")
    assert (finished.returncode, finished.stdout.splitlines()[-1]) == (0, "Nothing to remove.")
