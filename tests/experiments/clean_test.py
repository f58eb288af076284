import contextlib
import io
import os
import re
import sys
import time

import numpy as np
import pytest
from PIL import Image

from common.data import load_image_folder
from common.files import write_json
from common.records import RunDirectory
from experiments.preparation import leftovers
from experiments.settings import build
from tests.command_line import check_clean_failure, run_here

CONFIG = {"dataset": "glyphs", "loss": "c2", "pooling": "gap", "fold": 0, "repeat": 0}


@pytest.fixture
def places(tmp_path):
    """A cache of prepared images, as both kinds, and two runs of which one has finished."""
    for number in range(8):
        folder = tmp_path / "photos" / f"class{number // 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((20, 20, 3), 30 * number, np.uint8)).save(folder / f"{number}.png")
    cache, runs = tmp_path / "cache", tmp_path / "runs"
    dataset = load_image_folder(str(tmp_path / "photos"))
    build.prepare_copies(dataset, 16, str(cache))
    (cache / "images" / "folder" / "copies.json").unlink(missing_ok=True)
    write_json(cache / "images" / "folder" / "copies.json", {"copies": "shards"})
    build.prepare_copies(dataset, 16, str(cache))
    store = cache / "features" / "glyphs" / "0123456789abcdef"
    store.mkdir(parents=True)
    (store / "activations-00000-00ff.npy").write_bytes(bytes(100))
    (store / "origin.json").write_text("{}")
    for name in ("fold0-repeat0", "fold1-repeat0"):
        run = RunDirectory(runs / "fair" / "glyphs" / "c2+gap-0123456789" / name, CONFIG)
        run.append_metrics({"step": 1})
        if name[4] == "0":
            (run.path / "README.md").write_text("---\nlibrary_name: keras\ntags:\n")
            run.write_result({"score": 1.0}, {"queries": np.eye(2)}, [np.eye(2)])
    return tmp_path


def clean(places, *arguments):
    folders = [f"--cache_dir={places}/cache", f"--runs_dir={places}/runs"]
    return run_here("experiments.clean", *folders, *arguments)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def runs_of(places):
    return sorted(path.parent.name for path in (places / "runs").rglob("config.json"))


def test_the_list_has_everything_and_removes_nothing(places):
    before = files(places)
    finished = clean(places)
    assert finished.returncode == 0, finished.stderr
    for kind in (*leftovers.CACHES, "finished run", "unfinished run"):
        assert kind in finished.stdout
    assert "Choose by --cache or --runs" in finished.stdout
    assert max(map(len, finished.stdout.splitlines()[1:])) <= 100
    assert files(places) == before


def test_caches_are_removed_and_made_again(places):
    finished = clean(places, "--cache", "--yes")
    assert finished.returncode == 0, finished.stderr
    assert "3 of 3 removed" in finished.stdout
    left = files(places / "cache")
    assert [name for name in left if name.endswith((".jpg", ".bin", ".npy"))] == []
    assert "images/folder/copies.json" in left  # a choice, and no copy
    assert runs_of(places) == ["fold0-repeat0", "fold1-repeat0"]
    prepared = build.prepare_copies(load_image_folder(str(places / "photos")), 16, str(places / "cache"))
    assert len(prepared.train.shards) == len(prepared.train)


@pytest.mark.parametrize(
    ("chosen", "left"), [("unfinished", ["fold0-repeat0"]), ("all", [])], ids=["unfinished", "all"]
)
def test_runs_are_removed_as_chosen(places, chosen, left):
    finished = clean(places, f"--runs={chosen}", "--yes")
    assert f"{2 - len(left)} of {2 - len(left)} removed" in finished.stdout
    assert runs_of(places) == left
    assert (places / "runs").is_dir()
    assert (places / "runs" / "fair").exists() == bool(left)
    assert len(leftovers.caches_in(str(places / "cache"))) == 3


def test_only_old_ones(places):
    old = time.time() - 40 * 86400
    for path in (places / "runs").rglob("fold1-repeat0/*"):
        os.utime(path, (old, old))
    finished = clean(places, "--runs=all", "--cache", "--older_than_days=30", "--yes")
    assert "1 of 1 removed" in finished.stdout
    assert "fold0-repeat0" not in finished.stdout
    assert runs_of(places) == ["fold0-repeat0"]
    assert clean(places, "--older_than_days=-1").returncode == 2


def test_the_least_recently_used_caches_are_removed_first(places):
    dataset = load_image_folder(str(places / "photos"))
    caches = leftovers.caches_in(str(places / "cache"))
    for place, each in enumerate(caches):  # features last
        for path in (*each.folder.rglob("*"), each.folder):
            os.utime(path, (1e9 + place, 1e9 + place))
    build.prepare_copies(dataset, 16, str(places / "cache"))  # uses the shards, and writes nothing
    files_of, shards, features = sorted(caches, key=lambda each: leftovers.CACHES.index(each.kind))
    most = (shards.num_bytes + features.num_bytes) / 1e9
    assert "1 of 1 removed" in clean(places, "--cache", f"--keep_gb={most}", "--yes").stdout
    assert not files_of.folder.exists()
    assert "Nothing to remove" in clean(places, "--cache", f"--keep_gb={most}", "--yes").stdout
    assert "1 of 1 removed" in clean(places, "--cache", f"--keep_gb={shards.num_bytes / 1e9}", "--yes").stdout
    assert (shards.folder.exists(), features.folder.exists()) == (True, False)
    check_clean_failure(clean(places, "--keep_gb=1"), "--keep_gb", "only --cache removes")


def test_a_unit_bounds_the_caches_and_keeps_those_of_running_ones(places, capsys):
    cache = places / "cache"
    (cache / "features" / "other" / "00ff").mkdir(parents=True)
    (cache / "features" / "other" / "00ff" / "origin.json").write_text("{}")
    with leftovers.caches_in_use(str(cache), "glyphs", 1):
        assert "(stays)" in clean(places).stdout
        with leftovers.caches_in_use(str(cache), "folder", 1e-5):
            assert capsys.readouterr().err == ""
        said = capsys.readouterr().err
        assert re.search(
            r"0 MB of caches unused for longest were removed \(--cache_gb=1e-05\): features/other/00ff", said
        )
        assert {each.folder.parts[-2] for each in leftovers.caches_in(str(cache))} == {"glyphs", "prepared", "shards"}
    with leftovers.caches_in_use(str(cache), "glyphs", 0):
        pass
    assert [each.folder.parent.name for each in leftovers.caches_in(str(cache))] == ["glyphs"]
    assert list((cache / "in_use").iterdir()) == []


def test_a_run_in_progress_and_all_caches_stay(places):
    folder = next((places / "runs").rglob("fold1-repeat0"))
    before = files(places)
    with RunDirectory(folder, CONFIG).locked():
        finished = clean(places, "--runs=unfinished", "--cache", "--yes")
        assert "run in progress (stays)" in finished.stdout
        assert "stays: in use." in " ".join(finished.stdout.split())
        assert "Caches stay while a run is in progress." in finished.stdout
        (found,) = [run for run in leftovers.runs_in(str(places / "runs")) if run.folder == folder]
        assert not leftovers.remove(found, str(places / "runs"))  # as if it had begun after the question
    assert set(files(places)) - set(before) == {str((folder / "lock").relative_to(places))}


def test_folders_with_other_files_or_links_stay(places, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "precious.txt").write_text("mine")
    run = next((places / "runs").rglob("fold1-repeat0"))
    (run / "notes.txt").write_text("mine")
    own_readme = next((places / "runs").rglob("fold0-repeat0")).parent / "fold2-repeat0"
    RunDirectory(own_readme, CONFIG)
    (own_readme / "README.md").write_text("# Mine")
    next((places / "cache").rglob("prepared/shorter_side_16")).joinpath("ab").mkdir(exist_ok=True)
    os.symlink(elsewhere, next((places / "cache").rglob("prepared/shorter_side_16")) / "ab" / "link")
    os.symlink(elsewhere, places / "cache" / "features" / "glyphs" / "ffff")
    foreign = places / "runs" / "other"
    foreign.mkdir()
    write_json(foreign / "config.json", {"name": "of another program"})
    finished = clean(places, "--runs=all", "--cache", "--yes")
    assert "3 of 3 removed" in finished.stdout  # shards, features, the finished run
    assert "such as notes.txt" in " ".join(finished.stdout.split())
    assert (run / "notes.txt").read_text() == "mine"
    assert (run / "config.json").exists()
    assert (own_readme / "config.json").exists()
    assert (foreign / "config.json").exists()
    assert files(elsewhere) == ["precious.txt"]
    assert [each.kind for each in leftovers.caches_in(str(places / "cache"))] == ["copies of images"]


def test_what_changed_since_it_was_listed_stays(places):
    found = {each.kind: each for each in leftovers.runs_in(str(places / "runs"))}
    unfinished = found[leftovers.UNFINISHED]
    (unfinished.folder / "checkpoint.npz").write_bytes(b"new")
    assert not leftovers.remove(unfinished, str(places / "runs"))
    assert (unfinished.folder / "config.json").exists()


def test_without_a_terminal_it_refuses(places, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    check_clean_failure(clean(places, "--cache"), "--yes", "no terminal")
    assert len(leftovers.caches_in(str(places / "cache"))) == 3


@pytest.mark.parametrize(("answer", "count"), [("y\n", 0), ("\n", 3), ("no\n", 3)], ids=["yes", "enter", "no"])
def test_it_asks_first(places, monkeypatch, answer, count):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    finished = clean(places, "--cache")
    assert "Remove 3 of these" in finished.stdout
    assert ("Nothing was removed." in finished.stdout) == bool(count)
    assert len(leftovers.caches_in(str(places / "cache"))) == count


def test_folders_that_do_not_exist(tmp_path):
    with contextlib.chdir(tmp_path) if hasattr(contextlib, "chdir") else contextlib.nullcontext():
        finished = clean(tmp_path / "none", "--cache", "--runs=all", "--yes")
    assert (finished.returncode, finished.stdout.splitlines()[-1]) == (0, "Nothing to remove.")
