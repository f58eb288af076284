import importlib.util
import json
import sys

import numpy as np
import pytest
from PIL import Image

from benchmarks.input_pipeline import check_torch, measure_turns, our_passes, summary, timed
from common.data import ClassBalancedBatches, Examples
from common.errors import InvalidInput

HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    folder, paths = tmp_path_factory.mktemp("photographs"), []
    for number in range(32):
        pixels = np.random.default_rng(number).integers(0, 256, (9, 12, 3), dtype=np.uint8)
        paths.append(str(folder / f"{number}.jpg"))
        Image.fromarray(pixels).resize((341, 256)).save(paths[-1])
    return Examples(np.repeat(np.arange(8), 4), paths=np.array(paths))


def test_figures_are_medians_of_ours_over_the_others():
    rates = {
        "ours": [[30, 6], [60, 6], [90, 6]],
        "DataLoader": [[10, 3], [30, 3], [10, 3]],
        "decoding": [[60, 12], [60, 8], [90, 12]],
    }
    assert summary(rates) == {"over_dataloader": 3, "of_limit": 1, "cpu_over_dataloader": 2, "cpu_of_limit": 0.5}


def test_a_pass_of_ours_and_of_the_limit_see_as_many_images(photographs):
    batches = ClassBalancedBatches(photographs.labels, 8, 4, seed=0)
    for one_pass in our_passes(photographs, batches):
        num_images, wall, processor = timed(one_pass)
        assert num_images == 32 * batches.batches_per_epoch
        assert min(wall, processor) > 0


def test_without_pytorch_it_says_what_to_install(tmp_path):
    for python in ("false", str(tmp_path / "none")):
        with pytest.raises(InvalidInput, match=r"did not start with .* --torch_python=PATH"):
            check_torch(python)


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch, the peer, is not installed")
@pytest.mark.slow
def test_turns_with_pytorch(photographs):
    rates = measure_turns(photographs, sys.executable, repeats=1)
    assert all(json.loads(json.dumps(rate)) and min(rate[0]) > 0 for rate in rates.values())
