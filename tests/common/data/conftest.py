"""Small images for fixtures in the official layouts."""

import os

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def write_image():
    """Writes an image whose colour says which one it is, and makes its folder."""

    def write(path, colour=(200, 100, 50), size=(12, 10), mode="RGB", orientation=None, **options):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        pixels = np.full((size[1], size[0], 3), colour, np.uint8)
        if orientation:
            options["exif"] = Image.Exif()
            options["exif"][0x0112] = orientation
        Image.fromarray(pixels).convert(mode).save(path, **options)
        return str(path)

    return write
