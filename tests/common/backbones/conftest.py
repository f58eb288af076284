"""PyTorch and its networks, which ours are compared with; tests skip where they are not installed."""

import contextlib

import pytest


@pytest.fixture(scope="session")
def torch():
    """PyTorch; where torchvision's compiled part does not fit it, its operators have to be declared before."""
    module = pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")
    library = module.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):  # torchvision's own library has declared it
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    module.manual_seed(0)
    yield module
    del library  # not before torchvision has been imported


@pytest.fixture(scope="session")
def torchvision(torch):
    return pytest.importorskip("torchvision", reason="torchvision, the oracle, is not installed").models


@pytest.fixture(scope="session")
def timm(torch):
    return pytest.importorskip("timm", reason="timm, the oracle, is not installed")
