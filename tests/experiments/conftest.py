"""A folder of small colour images, caches of the embedded data, and finished runs with the rows that they leave."""

import json
import shutil

import numpy as np
import pytest
import scipy.io
from PIL import Image

from common.data.glyph_collage import TILE_SIZE
from common.data.glyph_drawings import draw_glyphs
from common.data.glyphs import GLYPH_SIZE
from experiments.protocols.recording import record
from experiments.rows.run_folders import collect, run_row
from experiments.runs.trained_model import DataFolder
from tests.experiments.tiny_network import in_place_of_small_networks
from tests.experiments.tiny_study import TinyStudy


@pytest.fixture(scope="module")
def tiny_network():
    """For the tests of a file, resnet10 and resnet20 are one convolution wherever this process builds them."""
    with in_place_of_small_networks():
        yield


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
def official_cars(image_folder, tmp_path_factory):
    """The images of `image_folder` in the layout of Cars196: 24 classes of four photographs."""
    root = tmp_path_factory.mktemp("data") / "cars196"
    (root / "car_ims").mkdir(parents=True)
    paths = sorted(image_folder.glob("*/*.png"))
    fields = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
    annotations = np.zeros((1, len(paths)), dtype=[(field, object) for field in fields])
    for index, path in enumerate(paths):
        name = f"car_ims/{index:06d}.jpg"
        Image.open(path).save(root / name)
        annotations[0, index] = (name, 1, 1, 42, 42, index // 4 + 1, 0)
    class_names = np.array([[f"car {index}" for index in range(24)]], dtype=object)
    scipy.io.savemat(root / "cars_annos.mat", {"annotations": annotations, "class_names": class_names})
    return root.parent


@pytest.fixture(scope="session")
def glyph_cache(tmp_path_factory, drawn_glyphs):
    """A cache folder for the embedded data sets, shared by the tests of this process.

    Its data set `glyphs` has every sixteenth of the 2,100 characters: what a command does with them does not depend on
    their number, and they have tests of their own. The collages are whole.
    """
    folder = tmp_path_factory.mktemp("cache")
    (collage_file,) = drawn_glyphs(TILE_SIZE).iterdir()
    shutil.copy(collage_file, folder)
    (whole_file,) = drawn_glyphs(GLYPH_SIZE).iterdir()
    whole = draw_glyphs(GLYPH_SIZE, cache_dir=whole_file.parent)
    is_kept = np.isin(whole.code_points, np.unique(whole.code_points)[::16])
    np.savez(folder / whole_file.name, images=whole.images[is_kept], code_points=whole.code_points[is_kept])
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Finished runs of two methods on a tiny data set, two folds each."""
    study = TinyStudy(tmp_path_factory.mktemp("recorded"))
    for pooling, noise in (("gap", 0.9), ("gsp", 0.6)):
        for fold in (0, 1):
            study.finish(study.config("pnca", pooling), fold, noise=noise)
    return study


@pytest.fixture(scope="session")
def tiny_rows(tiny):
    return [row for rows in collect(tiny.folder) for row in rows]


@pytest.fixture
def recorded(tiny_rows, tmp_path):
    folder = tmp_path / "results" / "tiny"
    record(tiny_rows, folder, DataFolder(), command="python -m experiments.fair_eval")
    return folder


class DrawnCells:
    """Answers for every cell that `value_of` gives a validation MAP@R for; None: the cell is missing."""

    dataset, problems = None, ()

    def __init__(self, folder, value_of):
        self.folder, self.value_of = folder, value_of

    def row(self, cell):
        value = self.value_of(cell)
        if value is None:
            return None
        path = self.folder / cell.config.hash("drawn") / f"fold{cell.fold}-repeat{cell.repeat}"
        if not path.exists():
            path.mkdir(parents=True)
            labels = np.repeat(np.arange(5), 8)
            noise = np.random.default_rng(cell.fold).normal(size=(40, 5)).astype(np.float32)
            np.savez(path / "test_embeddings.npz", queries=np.eye(5)[labels] + (1 - value) * noise, query_labels=labels)
            if "pads" in cell.config.loss:
                np.savez(path / "sampling.npz", probabilities=np.full((3, cell.config.pads_bins), 0.5))
        steps = min(cell.config.max_steps, 1000)
        result = {
            "validation": {"best": {cell.config.monitor: value, "step": steps // 2}},
            "test": {"MAP@R": value - 0.1, "P@1": 0.5},
            "untrained": {"MAP@R": 0.05, "P@1": 0.1},
            "steps": steps,
            "train_seconds": 50.0,
        }
        if cell.config.method == "ccp":
            lengths = [steps] if cell.config.ccp_max_problems else [steps // 2, steps // 4, steps // 4]
            result["problems"] = [{"steps": length} for length in lengths]
        (path / "result.json").write_text(json.dumps(result))
        return run_row(path, cell.fold, cell.repeat, cell.config.as_dict(), result)


@pytest.fixture
def drawn_cells(tmp_path):
    folder = tmp_path / "drawn"
    folder.mkdir()
    return lambda value_of: DrawnCells(folder, value_of)
