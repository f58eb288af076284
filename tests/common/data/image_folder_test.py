import os
import shutil

import numpy as np
import pytest

from common.data import image_folder
from common.data.image_folder import find_image_files, load_image_folder
from common.errors import InvalidInput


@pytest.fixture
def folder(tmp_path):
    """Six classes of two images, which are empty files."""
    add(tmp_path / "data", *(f"class {number}/{image}.png" for number in range(6) for image in (2, 1)))
    return tmp_path / "data"


def add(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_half_of_the_classes_train(folder):
    dataset = load_image_folder(str(folder), cache_dir="unused", seed=0)
    assert dataset.name == "folder"
    np.testing.assert_array_equal(dataset.train.labels, [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(dataset.test.labels, [3, 3, 4, 4, 5, 5])
    assert sorted(dataset.class_names) == [f"class {number}" for number in range(6)]
    for examples in (dataset.train, dataset.test):
        for path, label in zip(examples.paths, examples.labels):
            assert f"/{dataset.class_names[label]}/" in path
    assert dataset.train.paths[0].endswith("1.png")
    assert dataset.deviations


def test_the_seed_and_the_fraction_decide_the_split(folder):
    splits = {load_image_folder(str(folder), seed=seed).class_names[:3] for seed in range(8)}
    assert len(splits) > 1
    assert load_image_folder(str(folder), seed=3).class_names == load_image_folder(str(folder), seed=3).class_names
    assert load_image_folder(str(folder), seed=0, train_fraction=0.34).train.num_classes == 2


def test_classes_may_be_nested_and_other_files_are_ignored(folder):
    add(folder, *(f"{name}/character01/{image}.JPG" for name in ("Greek", "Latin") for image in (1, 2)))
    add(folder, ".cache/1.png", "cover.png", "class 0/notes.txt")
    (folder / "empty").mkdir()
    dataset = load_image_folder(str(folder))
    assert len(dataset.train) + len(dataset.test) == 16
    assert {"Greek/character01", "Latin/character01", "class 0"} <= set(dataset.class_names)
    assert len(dataset.class_names) == 8


def test_classes_in_one_folder_are_a_family(folder, tmp_path):
    assert load_image_folder(str(folder)).test.families is None
    names = [f"{alphabet}/character{number}" for alphabet in ("Greek", "Latin") for number in range(4)]
    add(tmp_path / "nested", *(f"{name}/{image}.png" for name in names for image in (1, 2)))
    dataset = load_image_folder(str(tmp_path / "nested"))
    for part in (dataset.train, dataset.test):
        alphabets = [dataset.class_names[label].split("/")[0] for label in part.labels]
        assert [alphabets[0] == alphabet for alphabet in alphabets] == (part.families[0] == part.families).tolist()


def test_families_stay_on_one_side_if_asked_to(folder, tmp_path):
    with pytest.raises(InvalidInput, match="--by_family: received .*expected every class in a family's folder"):
        load_image_folder(str(folder), by_family=True)
    names = [
        f"{family}/{number}" for family, size in zip("abcdefgh", (3, 1, 2, 4, 1, 2, 3, 4)) for number in range(size)
    ]
    add(tmp_path / "nested", *(f"{name}/{image}.png" for name in names for image in (1, 2)))
    dataset = load_image_folder(str(tmp_path / "nested"), by_family=True)
    family = [name.partition("/")[0] for name in dataset.class_names]
    num_train = dataset.train.num_classes
    assert not {*family[:num_train]} & {*family[num_train:]}
    for training, validation in dataset.folds(2):
        assert not {family[label] for label in training} & {family[label] for label in validation}


def test_a_training_class_with_one_image_is_named(folder):
    trains, *_, tests = load_image_folder(str(folder)).class_names
    (folder / tests / "1.png").unlink()
    assert len(load_image_folder(str(folder)).test) == 5
    (folder / trains / "1.png").unlink()
    with pytest.raises(InvalidInput, match=rf"one image \({trains}\)"):
        load_image_folder(str(folder))
    with pytest.raises(InvalidInput, match="fraction"):
        load_image_folder(str(folder), train_fraction=1.0)
    for name in os.listdir(folder)[1:]:
        shutil.rmtree(folder / name)
    with pytest.raises(InvalidInput, match="--data_dir.*at least two class folders.*glyphs"):
        load_image_folder(str(folder))


def test_links_to_class_folders_are_followed_unless_they_lead_back(folder, tmp_path):
    add(tmp_path, *(f"{name}/{image}.png" for name in ("elsewhere/class 7", "alphabets/Greek/alpha") for image in "12"))
    (folder / "class 7").symlink_to(tmp_path / "elsewhere" / "class 7", target_is_directory=True)
    (folder / "more").symlink_to(tmp_path / "alphabets", target_is_directory=True)
    (folder / "class 0" / "again").symlink_to(folder, target_is_directory=True)
    (folder / "self").symlink_to(".", target_is_directory=True)
    dataset = load_image_folder(str(folder))
    assert {"class 7", "more/Greek/alpha"} < set(dataset.class_names)
    assert len(dataset.class_names) == 8
    (folder / "class 9").symlink_to(folder / "class 3", target_is_directory=True)
    with pytest.raises(InvalidInput, match="class 3 and class 9, which are one folder"):
        load_image_folder(str(folder))


def test_a_folder_that_cannot_be_read_is_named(folder, monkeypatch):
    scandir = os.scandir

    def refuses_one(path):
        if str(path).endswith("class 2"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(image_folder.os, "scandir", refuses_one)
    with pytest.raises(InvalidInput, match="class 2', expected a folder that can be read .Permission denied"):
        load_image_folder(str(folder))


def test_what_is_no_file_is_named_at_once(folder):
    os.mkfifo(folder / "class 4" / "3.png")
    with pytest.raises(InvalidInput, match="class 4/3.png', expected a file that can be read .*a named pipe"):
        load_image_folder(str(folder))


def test_folders_of_systems_are_no_classes(folder, capsys):
    names = ("@eaDir/1.png", "class 1/@eaDir/1.png", "#recycle", "$RECYCLE.BIN/S-1-5", "class 2/lost+found")
    add(folder, *(f"{name}/{image}.png" for name in names for image in "12"))
    add(folder, *(f"{name}/1.png" for name in ("System Volume Information", "2020 Previews.lrdata/0/1", "@Recycle")))
    assert len(load_image_folder(str(folder)).class_names) == 6
    assert "left out: 8 system folders (#recycle 1, $RECYCLE.BIN 1, 2020 Previews.lrdata 1, @Recycle 1, @eaDir 2" in (
        capsys.readouterr().err
    )
    assert len(find_image_files(str(folder))) == 12
    assert len(find_image_files(str(folder / "#recycle"))) == 2  # asked for by name


def test_patterns_leave_out_files_and_folders(folder, capsys):
    add(folder, "class 0/thumb_1.png", "class 1/raw/1.png", "raw/3.png", "raw/4.png", "[old]/5.png")
    capsys.readouterr()
    patterns = ("thumb_*", "class 1/raw", "[[]old]", "class 5")
    assert len(find_image_files(str(folder), exclude=patterns)) == 12
    assert capsys.readouterr().err == f"{folder}: left out: 4 by --exclude\n"
    assert sorted(load_image_folder(str(folder), exclude=patterns).class_names)[-2:] == ["class 4", "raw"]
    with pytest.raises(InvalidInput, match="left out: [0-9]+ by --exclude"):
        find_image_files(str(folder), exclude=("*",))


def test_a_link_to_itself_is_an_image_that_cannot_be_read(folder, monkeypatch):
    for name in ("self.png", "notes"):
        (folder / "class 0" / name).symlink_to(name)
    with pytest.raises(InvalidInput, match="self.png', expected a file that can be read .*symbolic links") as error:
        load_image_folder(str(folder))
    assert "notes" not in str(error.value)
    skipped = []
    assert len(load_image_folder(str(folder), skipped=skipped).class_names) == 6
    assert len(skipped) == 1
    assert len(find_image_files(str(folder))) == 13  # named when it is read


def test_names_that_are_no_text_are_found(folder):
    """A class and a file with bytes of Latin-1: the class's name is text that every file can hold."""
    os.rename(folder / "class 0", os.fsencode(folder) + b"/caf\xe9")
    os.rename(os.fsencode(folder) + b"/caf\xe9/1.png", os.fsencode(folder) + b"/caf\xe9/\xff.png")
    dataset = load_image_folder(str(folder))
    assert "caf\\xe9" in dataset.class_names
    paths = [*dataset.train.paths, *dataset.test.paths]
    assert os.fsdecode(os.fsencode(folder) + b"/caf\xe9/\xff.png") in paths
    assert "caf\\xe9" in dict(find_image_files(str(folder))).values()
    assert all(map(os.path.isfile, paths))
