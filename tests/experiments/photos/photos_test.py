import pytest

from common.errors import InvalidInput
from experiments.photos.embedding import Photos, find_photos
from tests.experiments.photos.conftest import write_photo


def test_a_folder_of_classes_a_flat_folder_and_one_file(photos):
    found = find_photos(str(photos))
    assert found.paths == [str(photos / name / f"{place}.png") for name in ("jay", "kea", "owl") for place in range(4)]
    assert found.labels == ["jay"] * 4 + ["kea"] * 4 + ["owl"] * 4
    assert find_photos(str(photos / "kea")) == Photos(found.paths[4:8], None)
    assert find_photos(found.paths[2]) == Photos([found.paths[2]], None)
    mixed = write_photo(photos / "loose.png", 99)
    assert ("", mixed) in zip(find_photos(str(photos)).labels, find_photos(str(photos)).paths)
    assert found.without(set(found.paths[1:])) == Photos(found.paths[:1], ["jay"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_with_and_without_labels(photos, ending):
    path = photos / f"table.{ending}"
    for columns in (
        {"path": ["jay/1.png", "owl/0.png"]},
        {"path": ["kea/1.png"], "label": ["a parrot"], "split": ["test"]},
    ):
        if ending == "csv":
            path.write_text("\n".join([",".join(columns), *(",".join(row) for row in zip(*columns.values()))]))
        else:
            pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
            pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
        expected = Photos([str(photos / name) for name in columns["path"]], columns.get("label"))
        assert find_photos(str(path)) == expected


def test_what_is_no_photo_is_named(photos, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "clip.MP4").write_bytes(b"x")
    (tmp_path / "twice.csv").write_text("path\nphotos/jay/0.png\nphotos/jay/0.png\n")
    (tmp_path / "lost.csv").write_text("path\nphotos/jay/9.png\n")
    (tmp_path / "none.csv").write_text("path\n")
    (tmp_path / "other.csv").write_text("file\nphotos/jay/9.png\n")
    for name, phrase in {
        "nothing": "--images: received .*nothing', expected a folder, a .csv",
        "empty": "empty', expected a folder with image files",
        "clip.MP4": "ffmpeg -i .*clip.MP4 -vf fps=1",
        "twice.csv": "line 3.*jay/0.png once more.*line 2 has it already",
        "lost.csv": "line 2.*jay/9.png.*exists",
        "none.csv": "no row",
        "other.csv": "columns file.*header with path",
    }.items():
        with pytest.raises(InvalidInput, match=phrase):
            find_photos(str(tmp_path / name))
