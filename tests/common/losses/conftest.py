"""Embeddings placed by hand, and the pairs that they form, enumerated with plain Python loops."""

import math

import numpy as np
import pytest
import tensorflow as tf

from common.references import References

keras = tf.keras
EMBEDDINGS = [(1.0, 0.2), (0.3, 0.1), (-0.4, 0.9), (-2.0, 1.0), (0.1, -0.7), (0.6, 0.5)]
LABELS = [2, 2, 0, 0, 1, 2]
REFERENCE_EMBEDDINGS = [(0.9, -0.3), (-0.2, 0.4), (0.5, 0.5), (-1.5, -0.1), (0.2, -0.8), (0.0, 1.0), (-0.6, -0.6)]
REFERENCE_LABELS = [2, 0, 1, 2, 1, 0, 5]
VALID = [True, False, True, True, True, True, True]


def inner_product(x, y):
    return sum(a * b for a, b in zip(x, y))


def distance(x, y):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y)))


def normalized(vector, mode):
    norm = math.sqrt(inner_product(vector, vector))
    divisor = {"unit": norm, "clip": max(1.0, norm), "none": 1.0}[mode]
    return tuple(component / divisor for component in vector)


class Case:
    """A batch and what it is compared with, for the loss and for its recomputation by loops."""

    def __init__(self, kind, normalization):
        self.normalization = normalization
        self.embeddings, self.labels = np.array(EMBEDDINGS), np.array(LABELS)
        self.references = None
        if kind != "batch":
            valid = np.array(VALID) if kind == "masked" else None
            self.references = References(np.array(REFERENCE_EMBEDDINGS), np.array(REFERENCE_LABELS), valid)

    def __call__(self, loss):
        """The loss of this case, as a float."""
        return float(loss(self.embeddings, self.labels, self.references))

    def batch(self):
        """Vectors, as the loss normalises them, and classes."""
        return [(normalized(v, self.normalization), label) for v, label in zip(EMBEDDINGS, LABELS)]

    def others(self, references=None):
        """The same of what the batch is compared with: the references that count, or itself."""
        references = references or self.references
        if references is None:
            return self.batch()
        vectors, labels, valid, _ = references
        valid = [True] * len(labels) if valid is None else valid
        rows = zip(np.asarray(vectors), np.asarray(labels), valid)
        return [(normalized(v, self.normalization), label) for v, label, ok in rows if ok]

    def anchors(self, role="embeddings", references=None):
        """For each anchor: its vector, the list of its positive and the list of its negative partners."""
        rows, references = self.batch(), references or self.references
        if references is None:
            pairs = [(row, [r for j, r in enumerate(rows) if j != i]) for i, row in enumerate(rows)]
        elif role == "references":
            pairs = [(row, rows) for row in self.others(references)]
        else:
            pairs = [(row, self.others(references)) for row in rows]
        for (vector, label), partners in pairs:
            positives = [other for other, other_label in partners if other_label == label]
            negatives = [other for other, other_label in partners if other_label != label]
            yield vector, positives, negatives


@pytest.fixture(params=["unit", "clip", "none"])
def normalization(request):
    return request.param


@pytest.fixture(params=["batch", "references", "masked"])
def case(request, normalization):
    """Losses that a test with a case makes compute in float64."""
    keras.mixed_precision.set_global_policy("float64")
    yield Case(request.param, normalization)
    keras.mixed_precision.set_global_policy("float32")


@pytest.fixture
def loops():
    """The functions of plain Python that the recomputations are made of."""

    class Loops:
        inner_product = staticmethod(inner_product)
        distance = staticmethod(distance)
        normalized = staticmethod(normalized)

        @staticmethod
        def mean(values):
            values = list(values)
            return sum(values) / len(values) if values else 0.0

        @classmethod
        def mean_of_nonzero(cls, terms):
            return cls.mean(term for term in terms if term > 0)

    return Loops
