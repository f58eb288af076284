import numpy as np
import pytest

from common.pooling.cbam import CBAMPooling


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def twin(features, kernel, narrow, widen):
    """`features` `[height, width, channels]`; `kernel` `[side, side, 2, 1]`."""
    height, width, channels = features.shape
    flat = features.reshape(-1, channels)
    gates = sigmoid(sum(np.maximum(v @ narrow, 0.0) @ widen for v in (flat.mean(axis=0), flat.max(axis=0))))
    gated = features * gates
    side = kernel.shape[0] // 2
    pooled, weights = np.zeros(channels), np.zeros((height, width))
    for row in range(height):
        for column in range(width):
            response = 0.0
            for i in range(-side, side + 1):
                for j in range(-side, side + 1):
                    if 0 <= row + i < height and 0 <= column + j < width:
                        local, taps = gated[row + i, column + j], kernel[side + i, side + j, :, 0]
                        response += taps[0] * local.mean() + taps[1] * local.max()
            weights[row, column] = sigmoid(response)
            pooled += weights[row, column] * gated[row, column] / (height * width)
    return pooled, weights


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
