"""PyTorch's side of the benchmark of the training step.

torchvision's network, channels last, in two precisions.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

try:
    import torch

    from benchmarks.torch_loader import declare_operators

    declare_operators()
    import torchvision
except ImportError as error:  # optional: constraints/peers.txt
    MISSING = str(error)
else:
    MISSING = ""


def steps_of(
    name: str | None, images: np.ndarray, labels: np.ndarray, dim: int, margins: tuple[float, float]
) -> dict[str, Callable[[], float]]:
    """Return training steps on a fixed batch, which return the loss.

    None without PyTorch or a network.

    Args:
        name: of torchvision's network, whose batch normalisation is frozen.
        images: uint8 `[batch, height, width, 3]`.
        labels: integers `[batch]`.
        dim: of the embedding.
        margins: of positive and negative pairs.
    """
    if MISSING or name is None:
        return {}
    torch.set_num_threads(int(os.environ.get("TF_NUM_INTRAOP_THREADS", 0)) or len(os.sched_getaffinity(0)))
    return {f"torch {kind}": _step(name, images, labels, dim, margins, kind) for kind in ("float32", "bfloat16")}


def _step(
    name: str, images: np.ndarray, labels: np.ndarray, dim: int, margins: tuple[float, float], kind: str
) -> Callable[[], float]:
    torch.manual_seed(0)
    network = getattr(torchvision.models, name)(weights=None)
    head_name = "fc" if hasattr(network, "fc") else "classifier"
    width = {"fc": 2048, "classifier": 1280}[head_name]
    setattr(network, head_name, torch.nn.Linear(width, dim, bias=False))
    network.train()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
            module.requires_grad_(False)
    network = network.to(memory_format=torch.channels_last)
    inputs = torch.from_numpy(images).permute(0, 3, 1, 2).float().div(255).to(memory_format=torch.channels_last)
    same = torch.from_numpy(labels[:, None] == labels[None, :])
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-5, betas=(0.9, 0.99), weight_decay=1e-4)

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16"):
            outputs = network(inputs)
        loss = _contrastive_loss(torch.nn.functional.normalize(outputs.float()), same, *margins)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _contrastive_loss(
    embeddings: torch.Tensor, same: torch.Tensor, positive_margin: float, negative_margin: float
) -> torch.Tensor:
    """Compute the contrastive loss of all pairs of a batch."""
    distances = (2 - 2 * embeddings @ embeddings.T).clamp_min(1e-12).sqrt()
    apart = ~torch.eye(len(same), dtype=torch.bool)
    attracted = (distances - positive_margin).clamp_min(0)[same & apart]
    repelled = (negative_margin - distances).clamp_min(0)[~same]
    return attracted.mean() + repelled.mean()
