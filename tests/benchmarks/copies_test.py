import numpy as np
from PIL import Image

from benchmarks.copies import COPYING, judged, plant


def test_copies_are_of_their_kinds_and_strengths(tmp_path):
    across, down = np.meshgrid(np.arange(200), np.arange(100))
    Image.fromarray(np.stack([across, down, 0 * down], axis=-1).astype(np.uint8)).save(tmp_path / "photo.png")
    (tmp_path / "photos").mkdir()
    planted = plant([str(tmp_path / "photo.png")], tmp_path / "photos")
    found = {kind: np.asarray(Image.open(tmp_path / "photos" / name), int) for name, (_, kind) in planted.items()}
    assert list(found) == ["", *COPYING]
    corners = {kind: (*image.shape[:2], *image[3, 3, :2]) for kind, image in found.items()}
    expected = {"": (100, 200, 3, 3), "half size": (50, 100, 6, 6), "cut by 5 %": (90, 180, 13, 8)}
    expected |= {"JPEG 60": (100, 200, 3, 3), "brighter": (100, 200, 4, 4), "mirrored": (100, 200, 196, 3)}
    expected |= {"turned by 90": (200, 100, 196, 3), "turned by 10": (100, 200, 0, 0)}
    expected |= {"cut by 25 x 20 %": (80, 150, 43, 13)}
    for kind, corner in expected.items():
        np.testing.assert_allclose(corners[kind], corner, atol=4, err_msg=kind)


def test_a_copy_is_found_in_the_group_of_its_photo_and_other_pairs_are_wrong():
    kinds = list(COPYING)
    planted = {"a": ("a", ""), "b": ("b", "")} | {f"{of}{kind}": (of, kind) for of in "ab" for kind in kinds}
    figures = judged(
        [["a", f"a{kinds[0]}", "b"], [f"b{kinds[1]}", f"a{kinds[1]}"], [f"b{kind}" for kind in kinds[2:4]]], planted
    )
    assert (figures[kinds[0]], figures[kinds[1]], figures["recall"]) == (50, 0, 100 / 16)
    assert (figures["precision"], figures["groups"], figures["groups_with_strangers"]) == (40, 3, 2)
