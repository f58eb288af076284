"""Hyper-parameters of the thesis' losses, per data set.

Reference: thesis section 3.3.2.1, "Hyperparameters". The embedded data sets are shaped like SOP (many classes, few
images) and take its values.
"""

from __future__ import annotations

SOP_LOSSES = {
    "c2": {"positive_margin": 0.2858, "negative_margin": 0.5130},
    "triplet": {"margin": 0.0451},
    "ms": {"ms_alpha": 2.0, "ms_beta": 40.0, "ms_base": 0.5},
    "softtriple": {
        "centers_per_class": 4,
        "softtriple_scale": 100.0,
        "softtriple_gamma": 47.9,
        "softtriple_tau": 0.2,
        "softtriple_margin": 0.3145,
    },
}
_CUB_LOSSES = {
    "c2": {"positive_margin": 0.0, "negative_margin": 0.3841},
    "triplet": {"margin": 0.0961},
    "ms": {"ms_alpha": 2.0, "ms_beta": 40.0, "ms_base": 0.5},
    "softtriple": {
        "centers_per_class": 10,
        "softtriple_scale": 20.0,
        "softtriple_gamma": 0.1,
        "softtriple_tau": 0.2,
        "softtriple_margin": 0.01,
    },
}
_CARS_LOSSES = {
    "c2": {"positive_margin": 0.2652, "negative_margin": 0.5409},
    "triplet": {"margin": 0.1190},
    "ms": {"ms_alpha": 14.35, "ms_beta": 75.83, "ms_base": 0.66},
    "softtriple": {
        "centers_per_class": 10,
        "softtriple_scale": 17.69,
        "softtriple_gamma": 19.18,
        "softtriple_tau": 0.0669,
        "softtriple_margin": 0.3588,
    },
}
_IN_SHOP_LOSSES = {
    "c2": {"positive_margin": 0.2858, "negative_margin": 0.5130},
    "triplet": {"margin": 0.0451},
    "ms": {"ms_alpha": 8.49, "ms_beta": 57.38, "ms_base": 0.41},
    "softtriple": {**_CUB_LOSSES["softtriple"], "centers_per_class": 4},
}
THESIS_LOSSES = {
    "cub200": _CUB_LOSSES,
    "folder": _CUB_LOSSES,
    "manifest": _CUB_LOSSES,
    "cars196": _CARS_LOSSES,
    "inshop": _IN_SHOP_LOSSES,
    "sop": SOP_LOSSES,
    "glyphs": SOP_LOSSES,
    "glyph_scripts": _CUB_LOSSES,  # hundreds of classes that are hard to tell apart, as birds
    "glyph_collage": SOP_LOSSES,
    "glyph_collage_distilled": SOP_LOSSES,
    "synthetic_tokens": _CUB_LOSSES,
}
