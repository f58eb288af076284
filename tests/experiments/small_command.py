"""A command as it is, but for its network and its graphs, which are most of what a run of a few steps costs.

    python -m tests.experiments.small_command MODULE ARGUMENT...

For what a command reads, says and writes, and how it ends, whatever it trains. Units that it launches are small, too.
"""

import runpy
import sys

from experiments.launch import worker_process
from tests.experiments.tiny_network import in_place_of_small_networks
from tests.support.eager_functions import eagerly

if __name__ == "__main__":
    sys.argv = [argument for argument in sys.argv[1:] if argument != "-m"]
    worker_process.INTERPRETER = (sys.executable, "-m", "tests.experiments.small_command")
    with in_place_of_small_networks(), eagerly(True):
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
