"""Declarations for importing torchvision when its compiled part does not fit PyTorch."""

from __future__ import annotations

import contextlib

import torch

_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")  # kept: its declarations go with it


def declare_operators() -> None:
    """Declare the operators that torchvision expects from its compiled part."""
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):  # they are there
            _LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
