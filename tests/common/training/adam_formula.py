"""Adam written out by hand, in the type of what it is given."""

import numpy as np


def adam_by_hand(weight, gradients, learning_rate, beta_2, epsilon=1e-7, *, beta_1=0.9, decay=0.0):
    """The weight after a step with each of the gradients; with `decay`, AdamW's."""
    first = second = np.zeros_like(weight)
    for step, gradient in enumerate(gradients, start=1):
        first = beta_1 * first + (1 - beta_1) * gradient
        second = beta_2 * second + (1 - beta_2) * gradient**2
        rate = learning_rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        weight = (1 - learning_rate * decay) * weight - rate * first / (np.sqrt(second) + epsilon)
    return weight
