"""Entry points that regenerate the thesis' tables and figures; each module here is one command."""

from experiments.process import own_common  # says so where another `common` hides ours

__version__ = own_common.__version__
