"""Entry points that regenerate the thesis' tables and figures; each module here is one command."""

import os

from experiments.process import own_common  # says so where another `common` hides ours
from experiments.process.command_start import end_at_once_when_interrupted, is_being_started, refuse_parts_of_commands

refuse_parts_of_commands(__name__, os.path.dirname(__file__))
if is_being_started():
    end_at_once_when_interrupted()
__version__ = own_common.__version__
