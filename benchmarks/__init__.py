"""What is measured against peers and limits: one command each; the last figures are in README.md."""

import os

from experiments.process.command_start import refuse_parts_of_commands

refuse_parts_of_commands(__name__, os.path.dirname(__file__))
