"""`experiments.rehearse` at a hundredth of SOP, and its images in the four official layouts."""

import json
import pathlib

import numpy as np
import pytest

from experiments.preparation.data_sets import load
from experiments.preparation.official_images import LAYOUTS, make_official_images, official_parts
from tests.command_line import check_clean_failure, done_small_here, run_here, run_small_here

MODULE = "experiments.rehearse"


@pytest.mark.slow
def test_all_stages_are_measured_once(tmp_path):
    arguments = ["--dataset=sop", "--scale=0.01", f"--work_dir={tmp_path}", "--backbone=resnet10"]
    finished = done_small_here(MODULE, *arguments)
    assert max(map(len, finished.stdout.splitlines())) <= 100
    figures = dict(json.loads((tmp_path / "sop-0.01-resnet10" / "stages.json").read_text())["stages"])
    ccp, memory = "c2+ccp+gap", "margin+pads+xbm+gap"
    images = {name: of["images"] for name, of in figures.items() if of["images"]}
    assert images == {
        "copies": 596 + 605,
        f"{ccp}: untrained features": 605 + 448,
        f"{ccp}: pools, k-center": 85 * 7,
        f"{ccp}: validations": 2 * 148,
        f"{ccp}: test": 605,
        f"{memory}: untrained features": 605 + 378,  # without the classes that PADS watches
        f"{memory}: PADS' decisions": 4 * 70,
        f"{memory}: validations": 2 * 148,
        f"{memory}: test": 605,
        **{f"timed {kind}, {size} size": 452 for kind in ("copies", "embedding") for size in ("small", "full")},
        "timed steps, full size": 3 * 32,
    }
    assert all(of["seconds"] > 0 and 1e8 < of["peak"] < 8e9 for of in figures.values())
    assert {f"{ccp}: warm-up", "512-D, report"} <= figures.keys()

    again = run_small_here(MODULE, *arguments, "--step_seconds=0.1")
    table = again.stdout.partition("A step")[0]
    assert table.startswith("Rehearsal")
    assert table in finished.stdout  # nothing was repeated
    assert "runs at 0.1 s a step" in " ".join(again.stdout.split())


@pytest.mark.parametrize("name", LAYOUTS)
def test_images_are_read_as_official(tmp_path, name):
    release, _ = LAYOUTS[name]
    counts = {}
    for part, labels in official_parts(release, 1.0).items():
        counts |= {f"{part} images": len(labels), f"{part} classes": len(np.unique(labels))}
    assert counts == release.official_counts

    num_images = make_official_images(name, tmp_path, 0.002)
    dataset = load(name, str(tmp_path), str(tmp_path))
    parts = [dataset.train, dataset.test, *([dataset.gallery] if dataset.gallery else [])]
    assert sum(map(len, parts)) == num_images
    assert [part.num_classes for part in parts] == [32] * len(parts)
    assert len({pathlib.Path(path).read_bytes() for path in dataset.train.file_names}) == len(dataset.train)


def test_stopped_making_is_resumed(tmp_path):
    make_official_images("sop", tmp_path, 0.002)
    *others, lost = sorted(tmp_path.rglob("*.JPG"))
    contents, times = lost.read_bytes(), [path.stat().st_mtime_ns for path in others]
    lost.unlink()
    (tmp_path / "Stanford_Online_Products" / "Ebay_test.txt").unlink()
    make_official_images("sop", tmp_path, 0.002)
    assert lost.read_bytes() == contents
    assert [path.stat().st_mtime_ns for path in others] == times


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        (["--dataset=glyphs"], ["--dataset", "'glyphs'", "sop"]),
        (["--dataset=sop", "--scale=2"], ["--scale", "(0, 1]"]),
        (["--dataset=sop", "--step_seconds=0"], ["--step_seconds"]),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path, arguments, phrases):
    check_clean_failure(run_here(MODULE, *arguments, f"--work_dir={tmp_path / 'work'}"), *phrases)
    assert not (tmp_path / "work").exists()
