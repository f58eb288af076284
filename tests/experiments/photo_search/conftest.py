"""A model of one convolution, and photos in folders of classes."""

import numpy as np
import pytest
from PIL import Image

from common.deployment import save_model
from tests.common.deployment.small_models import of_images

CLASSES = ("jay", "kea", "owl")
PHOTOS_PER_CLASS = 4


def write_photo(path, seed, size=(20, 18)):
    """Stripes and a tint that the seed decides, so that photos and their embeddings differ."""
    rng = np.random.default_rng(seed)
    pixels = rng.uniform(0, 255, size=(3, 3, 3)).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR).save(path)
    return str(path)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The path of a `model.keras`."""
    path = tmp_path_factory.mktemp("model") / "model.keras"
    save_model(of_images()[0], path)
    return str(path)


@pytest.fixture
def photos(tmp_path):
    """A folder with twelve photos of three classes."""
    for number, name in enumerate(CLASSES):
        for place in range(PHOTOS_PER_CLASS):
            write_photo(tmp_path / "photos" / name / f"{place}.png", 10 * number + place)
    return tmp_path / "photos"
