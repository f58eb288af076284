import numpy as np
from PIL import Image

from experiments.studies.plane_panels import PlanePanel, plane_panels

POINTS, LABELS = np.random.default_rng(0).uniform(-1, 1, (40, 2)), np.arange(40) % 2
NAMES = ["zero", "one"]


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def test_representatives_are_drawn(tmp_path):
    converged, chosen = np.full((2, 4, 2), 0.5), np.full((2, 4, 2), -0.5)
    pictures = []
    for name, parts in {"none": (None, None), "boxes": (converged, None), "both": (converged, chosen)}.items():
        plane_panels([PlanePanel("state", POINTS, LABELS, *parts)], tmp_path / name, class_names=NAMES)
        pictures.append(pixels(tmp_path / name))
    assert np.any(pictures[0] != pictures[1])
    assert np.any(pictures[1] != pictures[2])


def test_more_than_ten_classes_have_colours_of_their_own(tmp_path):
    labels = np.arange(40) % 20
    plane_panels([PlanePanel("many", POINTS, labels)], tmp_path / "many.png", class_names=[str(k) for k in range(20)])
    assert len(np.unique(pixels(tmp_path / "many.png").reshape(-1, 3), axis=0)) > 20
