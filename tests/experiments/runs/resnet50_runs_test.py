"""A ResNet-50 has the layout of the file that it began from, also when its run is read."""

import numpy as np
import pytest

from common.backbones import resnet50, save_parameters
from experiments.runs.start_checks import _can_be_cut
from experiments.runs.trained_model import load_trained_model
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.places import Places
from experiments.settings.recipes import resolve
from tests.experiments.patterned_images import patterned_images

pytestmark = pytest.mark.usefixtures("functions_run_eagerly")


@pytest.mark.release  # half a minute, most of it the building of four networks
def test_a_run_from_torchvision_parameters_loads_again(tmp_path):
    dataset, places = patterned_images(4, 6), Places(str(tmp_path / "runs"), str(tmp_path / "cache"))
    network = resnet50(3, layout="torchvision")
    save_parameters(network, tmp_path / "network.npz")
    settings = {"num_folds": 2, "classes_per_batch": 2, "samples_per_class": 4, "image_size": 32, "crop": "shift_flip"}
    settings |= {"backbone": "resnet50", "weights": str(tmp_path / "network.npz"), "trained_from": "head"}
    settings |= {"steps_per_evaluation": 1, "max_steps": 1, "views": 1}
    config = resolve("cifar10", "c2", "gap", "thesis", "smoke", settings)
    shape = build.shape_settings(config)
    _can_be_cut("resnet50", "layer4.0", **shape)  # a name of that layout
    runs = UnitRuns(dataset, places)
    runs.train(config, fold=0, repeat=0)
    trained = load_trained_model(runs.unit_dir(config, 0, 0), dataset=dataset, cache_dir=places.cache_dir)
    for found, given in zip(trained.model.backbone.get_weights(), network.get_weights(), strict=True):
        np.testing.assert_array_equal(found, given)
