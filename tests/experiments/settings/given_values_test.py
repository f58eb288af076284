import pytest

from tests.experiments.patterned_images import write_photos
from tests.support.command_line import done_here, run_here

WRONG = {
    "budget": ("ful", "Did you mean full?"),
    "backbone": ("MobilenetV2", "Did you mean mobilenet_v2 or MobileNetV2?"),
    "loss": ("arcfce", "Did you mean arcface?"),
    "image_size": ("0", "expected a number in (0, inf)"),
    "weights": ("nowhere.npz", "cannot be read"),
    "classes_per_batch": ("32", "expected at most 2"),
    "train_fraction": ("1.5", "expected a number in (0, 1)"),
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Eight classes of three noisy images."""
    return write_photos(tmp_path_factory.mktemp("given") / "photos", dict.fromkeys("abcdefgh", 3))


def refused(folder, tmp_path, *arguments):
    result = run_here("experiments.fair_eval", *_places(folder, tmp_path), *arguments)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []
    return result.stderr


def _places(folder, tmp_path):
    return (
        "--dataset=folder",
        f"--data_dir={folder}",
        f"--runs_dir={tmp_path / 'runs'}",
        f"--cache_dir={tmp_path / 'cache'}",
    )


def test_all_of_it_is_named_by_its_flag_and_nothing_is_written(photos, tmp_path):
    said = refused(photos, tmp_path, *(f"--{name}={value}" for name, (value, _) in WRONG.items()))
    assert f"{len(WRONG)} things are wrong:" in said
    for name, (_, part) in WRONG.items():
        (line,) = [line for line in said.splitlines() if f"Invalid --{name}:" in line]
        assert part in line


def test_missing_photos_and_weights_are_refused_together(tmp_path):
    said = refused(tmp_path / "nowhere", tmp_path, "--backbone=mobilenet_v2")
    assert "2 things are wrong" in said
    assert "Invalid --data_dir" in said
    assert "--backbone=MobileNetV2: keras.applications' own" in said


def test_explain_shows_what_fits_with_its_layer(photos, tmp_path):
    arguments = (*_places(photos, tmp_path), "--weights=none", "--train_fraction=0.75")
    rows = explained(*arguments)
    layer = "fits the 6 training classes of your data"
    assert rows["num_folds"] == ["3", layer]
    assert rows["classes_per_batch"] == ["4", layer]
    assert rows["samples_per_class"] == ["4", "--recipe=own_photos"]
    assert rows["train_fraction"] == ["0.75", "given on the command line"]
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_refused_by_an_image_leaves_no_folder(photos, tmp_path):
    damaged = photos / "a" / "damaged.png"
    damaged.write_bytes((photos / "a" / "0.png").read_bytes()[:100])
    try:
        arguments = (*_places(photos, tmp_path), "--backbone=resnet10", "--weights=none", "--image_size=16")
        result = run_here("experiments.fair_eval", *arguments, "--num_folds=2")
    finally:
        damaged.unlink()
    assert result.returncode == 2
    assert "damaged.png" in result.stderr
    assert not list(tmp_path.rglob("config.json"))


def explained(*arguments):
    """Value and layer of each setting that `--explain` prints."""
    lines = done_here("experiments.fair_eval", *arguments, "--explain").stdout.splitlines()
    return {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines if len(line.split()) > 2}


def test_a_batch_fits_official_data_of_another_size_unless_it_is_given(official_cars, tmp_path):
    places = ["--dataset=cars196", f"--data_dir={official_cars}", f"--cache_dir={tmp_path}"]
    rows = explained(*places, "--loss=pnca")
    classes = int(rows["classes_per_batch"][0])
    assert rows["classes_per_batch"][1].startswith("fits the ")
    assert classes < 32
    refused = run_here("experiments.fair_eval", *places, "--loss=pnca", f"--classes_per_batch={classes + 1}")
    assert refused.returncode == 2
    assert f"--classes_per_batch: received {classes + 1}, expected at most {classes}" in refused.stderr
    assert "--train_fraction" not in refused.stderr


@pytest.mark.parametrize("dataset", ["folder", "manifest"])
def test_own_photos_have_no_value_of_the_thesis_unless_it_is_asked_for(photos, dataset, tmp_path):
    table = tmp_path / "photos.csv"
    parts = ("train", "train", "train", "train", "test", "test", "test", "test")
    rows = [f"{path},{path.parent.name},{parts['abcdefgh'.index(path.parent.name)]}" for path in photos.glob("*/*")]
    table.write_text("\n".join(["path,label,split", *rows]) + "\n")
    place = [f"--dataset={dataset}", f"--data_dir={photos if dataset == 'folder' else table}"]
    own, thesis = explained(*place), explained(*place, "--recipe=thesis")
    named = {"loss": "ms", "backbone": "efficientnet_lite0", "learning_rate": "0.0001", "recipe": "own_photos"}
    assert {name: own[name][0] for name in named} == named
    assert (thesis["loss"][0], thesis["backbone"][0]) == ("pnca", "bn_inception")
    assert [name for name, (_, layer) in own.items() if "5.3.4.1" in layer] == []
