"""Small images for fixtures in the official layouts."""

import os

import numpy as np
import pytest
from PIL import Image

_REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


@pytest.fixture
def write_image():
    """Writes an image whose colour says which one it is, and makes its folder."""

    def write(path, colour=(200, 100, 50), size=(12, 10), mode="RGB", **options):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        pixels = np.full((size[1], size[0], 3), colour, np.uint8)
        Image.fromarray(pixels).convert(mode).save(path, **options)
        return str(path)

    return write


@pytest.fixture
def shared_data():
    """Path of one of the real data sets beside the repository; the test skips where it is not there."""

    def find(name):
        path = os.path.join(_REPOSITORY, "..", "shared", "data", name)
        if not os.path.isdir(path):
            pytest.skip(f"no real images at ../shared/data/{name}")
        return path

    return find


@pytest.fixture
def shared_file():
    """Path of a file with real images beside the repository; the test skips where it is not there."""

    def find(name):
        path = os.path.join(_REPOSITORY, "..", "shared", "data", name)
        if not os.path.isfile(path):
            pytest.skip(f"no real images at ../shared/data/{name}")
        return path

    return find
