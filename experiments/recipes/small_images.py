"""Recipes of data without photographs: tokens, characters, collages, CIFAR and emoji.

Source: thesis sections 5.3.1 (tokens) and 5.3.2 (Cifar Collage); the rest is ours.
"""

from __future__ import annotations

from typing import Any

from experiments.recipes.draft import Draft
from experiments.settings.run_settings import OWN_PHOTOS

# Section 5.3.2 for Cifar Collage (16 classes of 4 images in a batch); fewer classes if a fold, or the data set, has no
# 16 to train on.
_CIFAR_IMAGES = {"image_size": 32, "crop": "shift_flip"}
_CIFAR_COLLAGES = {"image_size": 64, "crop": "none", "plateau_patience": 5, "weight_decay": 0.0}
_TWO_CLASSES = {"classes_per_batch": 2, "samples_per_class": 32}
CIFAR: dict[str, dict[str, Any]] = {
    "cifar10": {**_CIFAR_IMAGES, "classes_per_batch": 4, "samples_per_class": 16},
    "cifar10_seen": {**_CIFAR_IMAGES, "classes_per_batch": 10, "samples_per_class": 6},
    "cifar10_unseen": {**_CIFAR_IMAGES, **_TWO_CLASSES, "num_folds": 2},
    "cifar100": _CIFAR_IMAGES,
    "cifar100_unseen": _CIFAR_IMAGES,
    "cifar_collage": _CIFAR_COLLAGES,
    "cifar_collage_published_code": {**_CIFAR_COLLAGES, "classes_per_batch": 12},
    "cifar10_collage": {**_CIFAR_COLLAGES, **_TWO_CLASSES},
}
# Steps of a pass over the training set in batches of these classes: the thesis counts their patience in epochs.
_EPOCHS = {"cifar_collage": 300, "cifar_collage_published_code": 600, "cifar10_collage": 188}
# Glyph collages are ours; these values come from their study (the thesis' for Cifar Collage are .2 and 10).
COLLAGE_GSP = {"smoothing": 20.0, "transport_ratio": 0.1, "gsp_memory_features": "local_features"}
# Ours. A network trained on ImageNet is fine-tuned whole, on images of its own size.
EMOJI: dict[str, Any] = {
    "backbone": "efficientnet_lite0",
    "weights": "imagenet",
    "image_size": 96,
    "crop": "shift_4",
    "classes_per_batch": 8,
    "learning_rate": 1e-4,
    "frozen_batch_norm": True,
}
EMOJI_CCP = {"pool_size": 6, "ccp_start": 100, "ccp_in_batch_weight": 0.1, "proxy_multiplier": 1.0}


def small_images(draft: Draft) -> None:
    """Set the training of small networks; chapter 3 evaluates often, as printed.

    Reference: thesis sections 5.3.1 (tokens) and 5.3.2 (Cifar Collage): batch, learning rate, schedule and patience,
    "default Adam" (no weight decay is printed); only validation ends a run. The samples in an epoch of tokens are not
    printed, so their patience counts evaluations. The rest is ours. Chapter 3 has the batch of its section 3.3.2.1,
    8 classes of 4 samples, because CCP replaces a larger batch (figure 3.8). Its norm clip (3.2.4) is used on glyphs,
    where it has been tried.
    """
    source = "as on emoji" if draft.recipe == OWN_PHOTOS else "ours, after thesis 5.3.1 and 5.3.2"
    of_chapter_3, name = draft.chapter == 3, draft.dataset.removesuffix("_distilled")
    tokens, characters = (draft.traits.kind == kind for kind in ("tokens", "characters"))
    steps = 50 if of_chapter_3 else _EPOCHS.get(name, 200)
    draft.set(source, normalization="none" if tokens else ("clip" if of_chapter_3 and characters else "unit"))
    draft.set(source, embedding_dim=2 if tokens else 128, beta_2=0.99, weight_decay=0.0 if tokens else 1e-4)
    draft.set(source, clip_norm=0.0, clip_value=0.0, plateau_patience=0, warm_up_epochs=0, warm_up_steps=0)
    draft.set(source, proxy_multiplier=10.0 if draft.by_proxy and not tokens else 1.0)
    network = "token_embedding" if tokens else ("resnet20" if name in CIFAR else "resnet10")
    draft.set(source, backbone=network, weights="none", image_size=32 if characters else (50 if tokens else 48))
    draft.set(source, crop="shift" if characters else "none")
    draft.set(source, classes_per_batch=8 if of_chapter_3 else 16, samples_per_class=4)
    draft.set(source, learning_rate=1e-4 if tokens else 1e-3, frozen_batch_norm=False)
    patience = 30 if tokens or of_chapter_3 else 10
    draft.set(source, steps_per_evaluation=steps, max_steps=10_000 * steps, patience=patience)
    draft.set(source, **(EMOJI if draft.traits.kind == "drawings" else CIFAR.get(name, {})))
    if name != draft.dataset and name in CIFAR:
        draft.set(source, image_size=32)
    if draft.loss.base == "hyperbolic":
        draft.set(source, normalization="unit")  # see `checks`
