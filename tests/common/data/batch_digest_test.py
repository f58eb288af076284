"""The same seed gives the same batches: in every process, for any number of threads, on both stacks."""

import json
import platform

import pytest

from tests.command_line import ROOT, run_program
from tests.common.data.batch_digest import STREAMS, digest

# Made with TensorFlow 2.21 and 2.15, which agree to the bit. Pixels are resized in float32: only on other processors
# may a compiler round them elsewise.
EXPECTED = {
    "thesis crop": "77adf3cc0b1a3f7af2b9aaa61388dbc6e7bf5f58e9f97f80f96d8fc3f402939e",
    "thesis crop, another seed": "1e433afbb72768cdd74ad0ac8111b1c7b94d736483c1c5ee49d1ac08c48cf517",
    "published code's crop": "f7703f50d7f4808223328891a6660401b828fe3e1a41d4c62133c5b4b658cb72",
    "grey shifts": "4ab445b0dbf6e7bf3edae31fa0f8d13a29173c058744de034ba50cf4f6831324",
}
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


@pytest.mark.skipif(not IS_X86, reason="the digests are those of x86-64")
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("num_threads", [1, 4])
def test_three_epochs_are_the_ones_that_are_written_down(stream, num_threads):
    assert digest(stream, num_threads) == EXPECTED[stream]


@pytest.mark.slow
def test_another_process_sees_the_same():
    script = ROOT / "tests" / "common" / "data" / "batch_digest.py"  # other packages may bring a module `tests.common`
    finished = run_program([str(script), "2"], fresh="another seed of Python's hashes")
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    assert found == {stream: digest(stream, None) for stream in STREAMS}
    assert len(set(found.values())) == len(STREAMS)
