"""A folder of small colour images, of which classes differ by their colour and pattern."""

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("folder")
    generator = np.random.default_rng(0)
    for class_index in range(24):
        folder = root / f"class{class_index:02d}"
        folder.mkdir()
        pattern = generator.uniform(0, 255, (6, 6, 3))
        for image_index in range(4):
            image = np.kron(pattern, np.ones((7, 7, 1))) + generator.normal(0, 20, (42, 42, 3))
            Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(folder / f"{image_index}.png")
    return root


@pytest.fixture(scope="session")
def glyph_cache(tmp_path_factory):
    """A cache folder for the embedded data sets, shared by the tests of this process."""
    return tmp_path_factory.mktemp("cache")
