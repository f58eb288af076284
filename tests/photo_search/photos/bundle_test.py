import importlib.util
import json
import shutil
import sys

import numpy as np
import pytest
from PIL import Image

from common.deployment import load_embedder, loading_risk
from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex
from tests.photo_search.conftest import write_photo
from tests.support.colour_profiles import DISPLAY_P3
from tests.support.command_line import run_program

ASK = """
import json, sys
from search import Bundle
bundle = Bundle()
found = [bundle.search(path, 5) for path in sys.argv[1:]]
assert not {"common", "photo_search"} & {*sys.modules}
print(json.dumps([found, bundle.threshold]))
"""


@pytest.fixture
def queries(photos, tmp_path):
    """Photos that are turned, transparent, of other colours, large, and thin."""
    exif = Image.Exif()
    exif[0x0112] = 6
    places = [write_photo(tmp_path / "new" / f"{seed}.png", seed, size) for seed, size in ((1, (90, 41)), (2, (9, 70)))]
    image = Image.open(write_photo(tmp_path / "wide.png", 3, (64, 30)))
    image.save(tmp_path / "new" / "turned.jpg", exif=exif)
    image.save(tmp_path / "new" / "profile.png", icc_profile=DISPLAY_P3)
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    image.save(tmp_path / "new" / "transparent.png")
    return sorted(map(str, (tmp_path / "new").iterdir()))[: len(places) + 3]


@pytest.mark.slow
def test_a_bundle_finds_what_the_index_finds_without_this_project(
    model, photos, queries, tmp_path, run_here, capsys, monkeypatch
):
    run_here("index", "--index=index", f"--model={model}", f"--images={photos}", f"--root={tmp_path}")
    capsys.readouterr()
    run_here("bundle", "--index=index", "--output=phone", "--reject=20")
    said = capsys.readouterr()
    assert said.err == "".join(f"{risk}\n" for risk in [loading_risk()] if risk)
    assert "MAP@R among these 12 images: " in said.out
    assert "Of 12 photos of the index, 100.0 % find the same nearest photo as there." in said.out
    names = ["bundle.json", "model.tflite", "search.py", "vectors.npy"]
    assert sorted(path.name for path in (tmp_path / "phone").iterdir()) == names
    shutil.move(tmp_path / "phone", tmp_path / "elsewhere")
    answer = run_program(["-c", ASK, *queries], tmp_path / "elsewhere")
    assert (answer.returncode, answer.stderr) == (0, "")
    found, threshold = json.loads(answer.stdout)
    index = EmbeddingIndex.load(tmp_path / "index", load_embedder(model))
    expected = index.search(queries, 5)
    assert [[str(tmp_path / path) for _, _, path in each] for each in found] == expected.ids
    assert [[label for _, label, _ in each] for each in found] == expected.labels
    np.testing.assert_allclose([[value for value, *_ in each] for each in found], expected.similarities, atol=1e-5)
    nearest = index.neighbors_of(np.arange(len(index)), 1).similarities[:, 0]
    assert np.mean(nearest < threshold - 1e-4) <= 0.2 <= np.mean(nearest < threshold + 1e-4) + 1 / len(index)

    spec = importlib.util.spec_from_file_location("bundled_search", tmp_path / "elsewhere" / "search.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    bundle = module.Bundle()
    photo = photos / "jay" / "2.png"
    by_pillow, pixels = bundle.embed(photo), np.asarray(Image.open(photo))
    monkeypatch.setitem(sys.modules, "PIL", None)  # then TensorFlow decodes
    np.testing.assert_array_equal(bundle.embed(str(photo)), by_pillow)
    assert bundle.search(pixels, 1)[0][1:] == ("jay", "photos/jay/2.png")


def test_what_cannot_become_a_bundle_is_refused(model, photos, tmp_path, run_here):
    run_here("index", "--index=index", f"--model={model}", f"--images={photos}")
    run_here("index", "--index=other", f"--model={model}", f"--images={photos}", "--metric=euclidean")
    with pytest.raises(InvalidInput, match="Missing --output"):
        run_here("bundle", "--index=index")
    with pytest.raises(InvalidInput, match="--output: received 'index', expected a folder that does not exist yet"):
        run_here("bundle", "--index=index", "--output=index")
    with pytest.raises(InvalidInput, match="compared by euclidean', expected cosine"):
        run_here("bundle", "--index=other", "--output=phone")
    shutil.move(photos, tmp_path / "moved")
    with pytest.raises(InvalidInput, match="index with 0 of 12 photos at their places.* --root"):
        run_here("bundle", "--index=index", "--output=phone")
    assert not (tmp_path / "phone").exists()
