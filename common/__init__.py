"""Foundation of every method of this project: operations, losses, poolings, backbones, data, retrieval, training."""

PROJECT = "deep-metric-learning"  # by which the other packages tell this one from another that is called `common`
__version__ = "0.1.0"
