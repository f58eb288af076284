"""The gradients under the instruction sets that one machine can be made to use, each in a process of its own."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.support.command_line import ROOT, environment

pytestmark = pytest.mark.release  # of this processor, as it is, `gradients_test` has them
PROGRAM = """
import sys
import tensorflow as tf
from tests.conformance.gradient_check import GradientCheck

tf.linalg.matmul(tf.ones([64, 64]), tf.ones([64, 64]))
print(max(GradientCheck(sys.argv[1], 17, lengths).error() for lengths in ("inside", "on", "outside", "mixed")))
"""


def run(case, **variables) -> list[str]:
    """Return the lines of a process: the last one is the largest error of a case's gradients."""
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, case],
        cwd=ROOT,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


def test_gradients_are_right_without_onednn():
    assert float(run("prototype_costs", TF_ENABLE_ONEDNN_OPTS="0")[-1]) < 1e-4


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="names instruction sets of x86")
def test_compiled_gradients_are_right_for_an_older_instruction_set():
    variables = {"TF_ENABLE_ONEDNN_OPTS": "1", "ONEDNN_MAX_CPU_ISA": "AVX2", "ONEDNN_VERBOSE": "1"}
    if tf.__version__ >= "2.19":  # an unknown flag of XLA ends the process
        variables["XLA_FLAGS"] = "--xla_cpu_max_isa=AVX2"
    lines = run("CompiledPooling", **variables)
    assert any(line.endswith("isa:Intel AVX2") for line in lines)  # oneDNN obeys
    assert float(lines[-1]) < 1e-4
