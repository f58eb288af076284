import errno
import time

import numpy as np
import pytest

from benchmarks.fault_training import full_disk, read_only
from common.files import read_json, write_arrays, write_json
from common.records import RunDirectory

FAULTS = [(full_disk, errno.ENOSPC), (read_only, errno.EROFS)]


@pytest.mark.parametrize(("fault", "code"), FAULTS)
def test_what_is_written_from_then_on_fails_and_leaves_the_old_file(fault, code, tmp_path):
    path, run = tmp_path / "result.json", RunDirectory(tmp_path / "run", {})
    write_json(path, {"step": 1})
    run.append_metrics({"step": 1})
    with fault(time.monotonic(), 0):
        for write in (
            lambda: write_json(path, {"step": 2}),
            lambda: write_arrays(tmp_path / "weights.npz", {"weights": np.zeros(2000)}),
            lambda: run.append_metrics({"step": 2}),
        ):
            with pytest.raises(OSError) as raised:
                write()
            assert raised.value.errno == code
        assert read_json(path) == {"step": 1}  # reading goes on
    assert sorted(found.name for found in tmp_path.iterdir()) == ["result.json", "run"]
    write_json(path, {"step": 3})
    assert read_json(path) == {"step": 3}
