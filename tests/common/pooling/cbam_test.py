import numpy as np
import pytest
from scipy.ndimage import correlate
from scipy.special import expit

from common.pooling.cbam import CBAMPooling


def twin(features, kernel, narrow, widen):
    """`features` `[height, width, channels]`; `kernel` `[side, side, 2, 1]`."""
    summaries = features.mean(axis=(0, 1)), features.max(axis=(0, 1))
    gated = features * expit(sum(np.maximum(each @ narrow, 0.0) @ widen for each in summaries))
    maps = gated.mean(axis=2), gated.max(axis=2)
    weights = expit(sum(correlate(each, kernel[:, :, place, 0], mode="constant") for place, each in enumerate(maps)))
    return np.mean(weights[..., None] * gated, axis=(0, 1)), weights


@pytest.mark.parametrize(("reduction", "side"), [(1, 3), (2, 1), (4, 5)])
def test_equals_loops(reduction, side):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 3, 4, 6))
    layer = CBAMPooling(reduction, kernel_size=side, dtype="float64")
    layer.build(features.shape)
    shapes = {"kernel": (side, side, 2, 1), "narrow": (6, 6 // reduction), "widen": (6 // reduction, 6)}
    weights = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    layer.position_gate.set_weights([weights["kernel"]])
    layer.narrow.set_weights([weights["narrow"]])
    layer.widen.set_weights([weights["widen"]])
    pooled, shares = layer(features), layer.spatial_weights(features)
    for image in range(2):
        expected, gates = twin(features[image], **weights)
        np.testing.assert_allclose(pooled[image], expected, rtol=1e-10)
        np.testing.assert_allclose(shares[image], (gates / gates.sum()).ravel(), rtol=1e-10)


def test_few_channels_keep_one_hidden_unit():
    layer = CBAMPooling(16)
    layer.build((None, 3, 3, 4))
    assert layer.narrow.units == 1
