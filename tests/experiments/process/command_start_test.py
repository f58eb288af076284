"""What is said before a command is loaded: of modules that are none, and at Ctrl-C."""

import pathlib
import signal
import tempfile
import time

import pytest

from experiments.process.command_start import end_at_once_when_interrupted, ends_at_once, is_being_started
from tests.command_line import check_clean_failure, run_module, run_program, start_program

FRESH = "how Python was started is what is looked at"


@pytest.mark.parametrize(
    ("module", "named"),
    [
        ("experiments.protocols.one_split", "fair_eval"),
        ("experiments.site.pages", "report"),
        ("benchmarks.fault_training", "faults"),
    ],
)
def test_a_part_of_commands_is_refused_and_commands_are_named(module, named):
    finished = run_module(module, "--some=flag", fresh=FRESH)
    check_clean_failure(finished, f"{module} is no command, but a part of some. Commands of ", f" {named},")
    assert finished.stdout == ""
    assert not {"one_split", "pages"} & set(finished.stderr.replace(".", " ").split("Commands of")[1].split())


def test_python_may_be_told_the_module_in_one_word():
    finished = run_program(["-mexperiments.units.unit_runs"], fresh=FRESH)
    check_clean_failure(finished, "experiments.units.unit_runs is no command")


def test_importing_refuses_nothing_and_leaves_interrupts_alone():
    program = "import signal; before = signal.getsignal(signal.SIGINT); "
    program += "import experiments.process.command_start as start; "
    program += "print(signal.getsignal(signal.SIGINT) is before, start.is_being_started())"
    finished = run_program(["-c", program], fresh=FRESH)
    assert finished.stdout.split() == ["True", "False"]
    assert not is_being_started()


@pytest.mark.skipif(not pathlib.Path("/proc/self/maps").exists(), reason="the moment is seen in Linux' /proc")
@pytest.mark.parametrize(
    "arguments",
    [
        ["experiments.pretrain"],  # its modules import TensorFlow
        ["experiments.fair_eval", "--dataset=glyphs", "--budget=smoke", "--runs_dir={folder}"],  # later, with the data
    ],
    ids=["at once", "late"],
)
def test_an_interrupt_during_the_imports_is_one_message(arguments, tmp_path):
    with tempfile.TemporaryFile("w+") as shown:
        given = ["-m", *(argument.format(folder=tmp_path) for argument in arguments)]
        process = start_program(given, stderr=shown, fresh=FRESH)
        maps = pathlib.Path(f"/proc/{process.pid}/maps")
        while process.poll() is None and "tensorflow" not in maps.read_text():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        shown.seek(0)
        assert shown.read() == "\nerror: Interrupted before anything was begun.\n"


def test_only_the_ordinary_way_of_interrupting_is_replaced():
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        end_at_once_when_interrupted()
        assert not ends_at_once()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        end_at_once_when_interrupted()
        assert ends_at_once()
    finally:
        signal.signal(signal.SIGINT, before)
