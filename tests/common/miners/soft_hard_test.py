import numpy as np
import tensorflow as tf

from common.miners import soft_hard


def test_draws_hard_ones_on_both_sides_and_leaves_out_easy_anchors():
    points = np.array([0.0, 0.1, 3.0, 1.0, 5.0, 5.2])[:, None]
    labels = np.array([0, 0, 0, 1, 2, 2])
    drawn = set()
    for seed in range(40):
        drawn |= set(zip(*(part.numpy() for part in soft_hard(tf.constant(points), labels, (0, seed)))))
    # 0: farthest positive 3, nearest negative 1: only the positive at 3, only the negative at 1. 1: the same.
    # 2: its positives are at 3 and 2.9, its negatives at 2, 2 and 2.2. 3 has no positive, 4 and 5 are easy.
    expected = {(0, 2, 3), (1, 2, 3)} | {(2, p, n) for p in (0, 1) for n in (3, 4, 5)}
    assert drawn == expected
