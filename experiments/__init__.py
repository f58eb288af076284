"""Commands that regenerate the thesis' tables and figures, one per module."""

from experiments.process import own_common  # fails if another `common` hides ours

__version__ = own_common.__version__
