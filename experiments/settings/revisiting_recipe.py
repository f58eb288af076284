"""Hyper-parameters of the "Revisiting" benchmark, from the dissertation's text or code.

Reference: Milbich, dissertation, sections 2.3.1 and 2.3.2 (table 2.2); the losses' own values, the batch of 112 and the
test crop come from the published code; the text only states that they were searched "around originally proposed
values".
"""

from __future__ import annotations

RECIPE = "revisiting"
BATCH = 112
SAMPLES_PER_CLASS = 2  # "SPC-2"
EPOCHS = {"sop": 100, "inshop": 100}  # 150 elsewhere; In-shop is not in the benchmark
STEPS_PER_EPOCH = {"cub200": 52, "cars196": 71, "sop": 531, "inshop": 231}  # training images / 112
_DEFAULT_EPOCHS, _DEFAULT_STEPS = 150, 52
_LOSSES = {
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


def revisiting_setting(dataset: str, base_loss: str, size: str | None) -> dict:
    """Return the recipe's changes.

    ResNet-50 with frozen batch normalisation, 128-D, Adam at a constant 1e-5. Only the number of epochs ends a run;
    each epoch has one evaluation. Weight decay is coupled, as in PyTorch's Adam.

    Args:
        dataset: name.
        base_loss: name, without a memory.
        size: `small` or `large` for data sets of photographs, None for embedded ones, which keep their network, its
            learning rate and the length of training; glyphs take half a batch.
    """
    values = {
        "embedding_dim": 128,
        "normalization": "unit",
        "beta_2": 0.999,
        "weight_decay": 4e-4,
        "samples_per_class": SAMPLES_PER_CLASS,
        "plateau_patience": 0,
        "warm_up_epochs": 0,
        "warm_up_steps": 0,
        **_LOSSES.get(base_loss, {}),
    }
    if dataset == "synthetic_tokens":
        values |= {"embedding_dim": 2, "normalization": "none"}
    if size is None:
        return (
            {**values, "classes_per_batch": BATCH // SAMPLES_PER_CLASS // 2} if dataset.startswith("glyph") else values
        )
    steps, epochs = STEPS_PER_EPOCH.get(dataset, _DEFAULT_STEPS), EPOCHS.get(dataset, _DEFAULT_EPOCHS)
    return {
        **values,
        "backbone": "resnet50",
        "weights": "imagenet",
        "frozen_batch_norm": True,
        "image_size": 224,
        "crop": "thesis",
        "classes_per_batch": BATCH // SAMPLES_PER_CLASS,
        "learning_rate": 1e-5,
        "steps_per_evaluation": steps,
        "max_steps": epochs * steps,
        "patience": epochs + 1,
    }
