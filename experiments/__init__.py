"""Commands that regenerate the thesis' tables and figures, one per module."""

import os

from experiments.process import own_common  # fails if another `common` hides ours

__version__ = own_common.__version__
# For one release, `python -m experiments.search`, `clinic` and `serve` run the commands of `photo_search`.
__path__.append(os.path.join(os.path.dirname(__path__[0]), "photo_search"))
