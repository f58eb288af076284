"""The printed hyper-parameters of thesis section 3.3.2.1, digit by digit."""

import pytest

from experiments.settings.thesis_values import LOSSES_OF

C2 = {"sop": (0.2858, 0.5130), "inshop": (0.2858, 0.5130), "cub200": (0.0, 0.3841), "cars196": (0.2652, 0.5409)}
TRIPLET = {"sop": 0.0451, "inshop": 0.0451, "cub200": 0.0961, "cars196": 0.1190}
MS = {"sop": (2, 40, 0.5), "inshop": (8.49, 57.38, 0.41), "cub200": (2, 40, 0.5), "cars196": (14.35, 75.83, 0.66)}
SOFT_TRIPLE = {
    "sop": (4, 100, 47.9, 0.2, 0.3145),
    "inshop": (4, 20, 0.1, 0.2, 0.01),
    "cub200": (10, 20, 0.1, 0.2, 0.01),
    "cars196": (10, 17.69, 19.18, 0.0669, 0.3588),
}


@pytest.mark.parametrize("dataset", C2)
def test_values_are_the_printed_ones(dataset):
    losses = LOSSES_OF[dataset]
    assert losses["c2"] == dict(zip(("positive_margin", "negative_margin"), C2[dataset]))
    assert losses["triplet"] == {"margin": TRIPLET[dataset]}
    assert losses["ms"] == dict(zip(("ms_alpha", "ms_beta", "ms_base"), MS[dataset]))
    names = ("softtriple_scale", "softtriple_gamma", "softtriple_tau", "softtriple_margin")
    assert losses["softtriple"] == dict(zip(("centers_per_class", *names), SOFT_TRIPLE[dataset]))
