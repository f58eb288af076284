"""Hyper-parameters of the conventional protocol that differ from the fair one's.

Reference: thesis sections 3.3.2.1 and 5.3.4.1 (tables 3.2 and 5.2).
"""

from __future__ import annotations

from common.errors import check_choice
from experiments.settings.config import CONVENTIONAL_PROTOCOLS
from experiments.settings.method_names import parse_loss

HELD_OUT_FRACTION = 0.1  # of the training classes, beside the conventional protocol; ours
MOST_CLASSES = {"cub200": 100, "cars196": 96}  # in a batch of one image per class
SLOW_DATASETS = ("cub200", "folder", "manifest")
_CODE_MARGINS = {
    "c2": {"positive_margin": 0.0, "negative_margin": 1.0},
    "triplet": {"margin": 0.2},
    "ms": {"ms_alpha": 2.0, "ms_beta": 40.0, "ms_base": 0.5},
}


def conventional_setting(dataset: str, protocol: str, by_proxy: bool, size: str | None, backbone: str) -> dict:
    """Return the conventional protocol's changes, also for stopping on held-out classes.

    The thesis: plateau of 4 evaluations; learning rate 1e-5 on CUB, 1e-4 on the others; weight decay 4e-4 and a batch
    of 112 with ResNet-50; 512-D; an evaluation every 25 or 250 steps; patience 15 or 10. The sampling
    of proxy losses is left open; the published code takes one image per class.

    Args:
        dataset: name.
        protocol: one of `CONVENTIONAL_PROTOCOLS`.
        by_proxy: whether the loss has proxies of its own.
        size: `small` or `large` for data sets of photographs, None for embedded ones, which keep their training.
        backbone: name.
    """
    check_choice("protocol", protocol, CONVENTIONAL_PROTOCOLS)
    held_out = protocol == "held_out"
    values = {
        "protocol": protocol,
        "plateau_patience": 4,
        **({"held_out_fraction": HELD_OUT_FRACTION} if held_out else {}),
    }
    if dataset != "synthetic_tokens":
        values["embedding_dim"] = 512
    if size is None:
        return values
    is_resnet, steps = backbone == "resnet50", {"small": 25, "large": 250}[size]
    classes = 28 if is_resnet else 32
    values |= {
        "classes_per_batch": classes,
        "samples_per_class": 4,
        "learning_rate": 1e-5 if dataset in SLOW_DATASETS else 1e-4,
        "weight_decay": 4e-4 if is_resnet else 1e-4,
        "steps_per_evaluation": steps,
        "max_steps": 10_000 * steps,
        "patience": {"small": 15, "large": 10}[size],
    }
    if by_proxy:
        most = MOST_CLASSES.get(dataset, 4 * classes)
        most = int(most * (1 - HELD_OUT_FRACTION)) if held_out else most
        values |= {"classes_per_batch": min(4 * classes, most), "samples_per_class": 1}
    return values


def published_code_conventional(values: dict, size: str | None, backbone: str) -> dict:
    """Return the published code's conventional values that the text lacks or contradicts.

    Args:
        values: the thesis' values by field name.
        size, backbone: as in `conventional_setting`.
    """
    if size is None:
        return {}
    large, chapter, is_resnet = size == "large", values["chapter"], backbone == "resnet50"
    switches = {"plateau_patience": 3 if large else 4, "learning_rate": 1e-4 if large else 1e-5}
    if large and chapter == 3 and not is_resnet:
        switches["patience"] = 15
    if values["warm_up_steps"]:
        switches["warm_up_trains_all"] = True  # its conventional configurations: freeze_during_warmup false
    if "xbm_batches" in values and not large:
        switches["xbm_batches"] = 25 if is_resnet else 50
        switches["xbm_start"] = 100 if is_resnet and chapter == 5 else 1000
    return switches | _CODE_MARGINS.get(parse_loss(values["loss"]).base, {})
