import json
import os

import pytest

from experiments.recipes import resolve
from experiments.settings import build
from tests.experiments.patterned_images import write_photos
from tests.support.command_line import ONE_EVALUATION, SMALL_PHOTOGRAPHS, check_clean_failure, done_here, run_here


@pytest.fixture
def photos(tmp_path):
    """Twelve classes of three photos, and four with one."""
    return write_photos(tmp_path / "photos", {f"class{label:02}": 1 if label % 4 == 3 else 3 for label in range(16)})


def fair_eval(photos, *arguments):
    given = [f"--data_dir={photos}", "--loss=c2", f"--cache_dir={photos.parent}/cache", "--classes_per_batch=2"]
    given += [f"--runs_dir={photos.parent}/runs", "--fold=0", "--noexport_model", *ONE_EVALUATION]
    return run_here("experiments.fair_eval", *SMALL_PHOTOGRAPHS, *given, *arguments)


@pytest.mark.slow
@pytest.mark.usefixtures("functions_run_eagerly", "tiny_network")
def test_what_cannot_be_used_is_left_out_and_named(photos):
    (photos / "class00" / "bad.jpg").write_bytes(b"no image")
    (photos / "class00" / "thumb_1.jpg").write_bytes(b"no image")
    os.symlink("/nowhere", photos / "class01" / "gone.jpg")
    check_clean_failure(fair_eval(photos), "gone.jpg")
    finished = fair_eval(photos, "--skip_unreadable", "--exclude=thumb_*")
    assert finished.returncode == 0, finished.stderr
    for said in (
        "gone.jpg",
        "bad.jpg",
        "left out: 1 by --exclude",
        "fewer than 2 images left out",
        "copies of images, about 1 MB",
        "clean --cache",
    ):
        assert said in finished.stderr
    (path,) = (photos.parent / "runs").rglob("result.json")
    config = json.loads(path.with_name("config.json").read_text())
    assert (config["skip_unreadable"], config["exclude"], "min_images" in config) == (True, "thumb_*", False)
    assert len(json.loads(path.read_text())["deviations"]) == 3
    page = ["--runs", str(photos.parent / "runs"), "--output", str(photos.parent / "page"), f"--data_dir={photos}"]
    shown = done_here("experiments.report", *page, f"--cache_dir={photos.parent}/cache")
    assert "others than" not in shown.stderr


def test_few_classes_are_explained_by_what_the_user_has(photos):
    for label in range(6, 16):
        for path in (photos / f"class{label:02}").iterdir():
            path.unlink()
    finished = fair_eval(photos)
    check_clean_failure(finished, "number of classes", "Add classes")
    assert "num_folds" not in finished.stderr


def test_hashes_are_those_of_before_at_the_defaults():
    config = resolve("folder", "c2", "gap", "thesis", "smoke", {})
    assert (config.min_images, config.skip_unreadable) == (None, None)
    assert not {"min_images", "skip_unreadable", "exclude"} & config.stored().keys()
    other = resolve("folder", "c2", "gap", "thesis", "smoke", {"min_images": 3})
    assert other.stored()["min_images"] == 3
    levels = resolve("manifest", "c2", "gap", "thesis", "smoke", {"label_column": "genus"})
    assert build.drawn_by(levels)["label_column"] == "genus"
    assert {name: value for name, value in build.drawn_by(other).items() if value} == {"min_images": 3}
