"""Hyper-parameters of Milbich's dissertation and its published code, as tables.

Source: Milbich, Visual Similarity and Representation Learning. Chapter 2 ("Revisiting Training Strategies and
    Generalization Performance in Deep Metric Learning", ICML 2020): losses, miners, regulariser and benchmark; the text
    prints few of the values ("around originally proposed values"), so they are the defaults of its published code.
    Chapter 3 ("Sharing Matters", with MIC's groups), chapter 4 (DiVA, table 4.1), chapter 5 (PADS).
Expected: table 2.2, multi-similarity on CUB200: R@1 62.80 +- .70, NMI 68.55 +- .38.
Cost: about three GPU hours per run on CUB200 (estimated), ten runs per row with both stopping rules.
Command: python -m experiments.revisiting_eval --dataset=cub200 --loss=ms,pnca --data_dir=data

Generated data sets are shaped like SOP and take its values. Custom photographs take those of CUB. Networks other than
BN-Inception take the values of ResNet-50. Keys of tables by network: `ibn`, `r50`.
"""

from __future__ import annotations

from typing import Any

LIKE_CUB = ("cub200", "folder", "manifest")
FINE_GRAINED = (*LIKE_CUB, "cars196")

# Losses. If the published code runs one on unnormalised embeddings and ours are unit vectors, `loss_scale` is 16, the
# scale of its ArcFace (ours).
FREE = {"loss_scale": 1.0, "norm_penalty": 0.005}
NORMALIZED = {"loss_scale": 16.0, "norm_penalty": 0.0}
LOSSES: dict[str, dict[str, Any]] = {
    "margin": {"margin": 0.2, "boundary": 1.2, "boundary_per_class": True},
    "npair": {},
    "lifted": {"margin": 1.0},
    "lifted_generalized": {"margin": 1.0},
    "quadruplet": {"margin": 0.2, "second_margin": 0.2},
    "angular": {"angle": 45.0, "angular_weight": 2.0},
    "histogram": {"histogram_nodes": 11},
    "snr": {"positive_margin": 0.0, "negative_margin": 1.0, "mean_penalty": 0.005},  # pytorch-metric-learning's
    "snr_triplet": {"margin": 0.2, "mean_penalty": 0.005},
    "normsoftmax": {"temperature": 0.05},
    "arcface": {"margin": 0.5, "loss_scale": 16.0},
    "circle": {"margin": 0.4, "loss_scale": 80.0},  # not in the dissertation: the paper's, for birds and cars
}
BY_NORMALIZATION = {  # the fields of `FREE` or `NORMALIZED` that a loss takes
    "npair": ("loss_scale", "norm_penalty"),
    "lifted": ("norm_penalty",),
    "lifted_generalized": ("norm_penalty",),
    "angular": ("loss_scale", "norm_penalty"),
}
FINE_GRAINED_NODES = 65  # of the histogram loss
PROXY_PACES = {"normsoftmax": 1.0, "arcface": 50.0, "margin": 50.0}  # of learning rates of 1e-5 and 5e-4
SOP_SOFTMAX_PACE = 200.0
SWITCHES = {"cars196": {}, "cub200": {"margin": 0.35, "snr_triplet": 0.3}}  # p_switch of rho by loss
SWITCH = {"cars196": 0.35, "cub200": 0.4, "sop": 0.15}  # of the other losses

# The benchmark: dissertation, sections 2.3.1 and 2.3.2. ResNet-50 with frozen batch normalisation, 128-D, Adam at a
# constant 1e-5. Only the number of epochs ends a run; each epoch has one evaluation. Weight decay is coupled, as in
# PyTorch's Adam.
BENCHMARK = {
    "embedding_dim": 128,
    "normalization": "unit",
    "beta_2": 0.999,
    "weight_decay": 4e-4,
    "samples_per_class": 2,  # "SPC-2"
    "plateau_patience": 0,
    "warm_up_epochs": 0,
    "warm_up_steps": 0,
}
BENCHMARK_PHOTOGRAPHS = {
    "backbone": "resnet50",
    "weights": "imagenet",
    "frozen_batch_norm": True,
    "image_size": 224,
    "crop": "thesis",
    "classes_per_batch": 56,  # a batch of 112
    "learning_rate": 1e-5,
}
BENCHMARK_GLYPHS = {"classes_per_batch": 28}  # half a batch
BENCHMARK_TOKENS = {"embedding_dim": 2, "normalization": "none"}
EPOCHS = {"sop": 100, "inshop": 100}  # 150 elsewhere; In-shop is not in the benchmark
STEPS_PER_EPOCH = {"cub200": 52, "cars196": 71, "sop": 531, "inshop": 231}  # training images / 112; 52 elsewhere

# Dissertation, sections 3.3, 4.3 and 5.4: what they print instead. Chapter 3 prints no decay and no epochs, chapter 5
# no decay, and 150 epochs for CUB alone, as the benchmark.
CHAPTERS: dict[int, dict[str, Any]] = {
    3: {"crop": "reduced"},
    4: {"crop": "reduced", "weight_decay": 5e-4},
    5: {"crop": "reduced"},
}
CHAPTER_4_EPOCHS = {"sop": 150, "inshop": 150}  # 200 elsewhere
CHAPTER_3_SIZE, CHAPTER_4_SIZES = 256, (510, 512)  # of embeddings, baselines included; the others have 128
CHAPTER_3_IMAGES = {"margin": 4, "triplet": 4, "npair": 2, "pnca": 1}  # of a class in a batch

BENCHMARK_LOSSES: dict[str, dict[str, Any]] = {
    "c2": {"positive_margin": 0.0, "negative_margin": 1.0},
    "triplet": {"margin": 0.2},
    "ms": {"ms_alpha": 2.0, "ms_beta": 40.0, "ms_base": 0.5},
    "pnca": {"temperature": 1 / 18, "proxy_multiplier": 50.0},  # |3x - 3p|^2 = 18 - 18 <x, p>
    "softtriple": {
        "centers_per_class": 2,
        "softtriple_scale": 8.0,
        "softtriple_gamma": 0.1,
        "softtriple_tau": 0.2,
        "softtriple_margin": 0.01,
        "proxy_multiplier": 1.0,
    },
}

# DiVA: (decorrelation, weight of a task, epoch of the drop) by network and data set; table 4.1, and the run scripts.
DIVA = {
    ("ibn", "cub200"): (300.0, 0.1, 70),
    ("ibn", "cars196"): (100.0, 0.1, 160),
    ("ibn", "sop"): (50.0, 0.1, 100),
    ("r50", "cub200"): (1500.0, 0.3, 60),
    ("r50", "cars196"): (100.0, 0.1, 70),
    ("r50", "sop"): (300.0, 0.2, 70),
}
DIVA_CODE = {
    ("ibn", "cars196"): (100.0, 0.15, 160),
    ("ibn", "sop"): (150.0, 0.1, 80),
    ("r50", "cub200"): (1500.0, 0.3, 55),
    ("r50", "cars196"): (100.0, 0.15, 70),
    ("r50", "sop"): (150.0, 0.2, 70),
}
DIVA_DROP = 0.3  # the factor of the learning rate

# Shared features and MIC: decorrelation; chapter 3 searches 500 to 2000 for each data set and prints no choice.
SHARED_ALONE = 1000.0
SHARED_ALONE_CODE = 1500.0
MIC = {"cub200": (30, 2500.0), "cars196": (200, 500.0), "sop": (50, 250.0), "inshop": (150, 250.0)}  # groups, and that
GROUP_EPOCHS = 4  # nominally three: the code compares its counter before raising it

# PADS, `+pads`.
PADS = {
    "pads_bins": 30,
    "pads_low": 0.1,
    "pads_high": 1.4,
    "pads_start": "0.3,0.7",
    "pads_steps": 30,
    "pads_images": 0.15,
    "pads_by": "images",  # `classes` for large data sets
    "pads_reward": "recall+nmi",
    "pads_estimator": "ppo_a2c",
    "pads_draws": "bins",
}
PADS_OUTSIDE = 1e-15
PADS_CODE: dict[str, dict[str, Any]] = {  # by data set; the others as `inshop`
    "cub200": {"pads_images": 0.15, "pads_reward": "recall"},
    "sop": {"pads_images": 0.1, "pads_steps": 60},
    "inshop": {"pads_images": 0.1},
}
