"""Import check: one clear error if another `common` hides this project's."""

import os

import common

if getattr(common, "PROJECT", None) != "deep-metric-learning":
    _found = os.path.abspath([*getattr(common, "__path__", []), common.__file__][0])
    _package = __name__.partition(".")[0]
    _place = os.path.abspath(__file__).rpartition(os.sep + os.path.join(_package, ""))[0]
    raise ImportError(
        f"{_package} needs the package `common` of deep-metric-learning: received {_found}, which hides it, expected "
        f"{os.path.join(_place, 'common')}. Rename {_found}, or put {_place} first in sys.path before anything imports "
        "`common`."
    )

__version__ = common.__version__
