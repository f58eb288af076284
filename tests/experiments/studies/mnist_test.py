import json
import struct

import numpy as np
import pytest

from tests.support.command_line import check_clean_failure, done_small_here, run_here, run_small_here


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A folder with 120 training and 60 test images, whose classes differ by the place of a bright square."""
    folder = tmp_path_factory.mktemp("mnist")
    generator = np.random.default_rng(0)
    for prefix, num_images in (("train", 120), ("t10k", 60)):
        labels = (np.arange(num_images) % 10).astype(np.uint8)
        images = generator.integers(0, 60, (num_images, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels):
            row, column = divmod(int(label), 4)
            image[8 * row : 8 * row + 6, 7 * column : 7 * column + 6] += 180
        header = struct.pack(">BBBB3I", 0, 0, 8, 3, *images.shape)
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        header = struct.pack(">BBBBI", 0, 0, 8, 1, len(labels))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())
    return folder


def run_study(*arguments):
    return run_here("experiments.figure", "--id=3.2", *arguments)


@pytest.mark.slow
def test_the_study_reports_and_is_not_run_again(digits, tmp_path):
    arguments = [
        "--id=3.2",
        f"--data_dir={digits}",
        f"--runs_dir={tmp_path}",
        "--budget=smoke",
        "--repeats=1",
        "--seed=3",
    ]
    arguments += ["--anchors=proxies,samples,fixed proxies", "--learning_rate=0.002", "--checkpoint_seconds=0"]
    arguments += [f"--record={tmp_path / 'rows'}"]
    listed = done_small_here("experiments.figure", *arguments)
    assert "3 cells: 0 done, 3 missing, about" in listed.stdout
    first = done_small_here("experiments.figure", *arguments, "--run")
    for phrase in ("(a) problem 1", "MAP@R", "cover", "97.21", "98.06", "fixed proxies", "not comparable"):
        assert phrase in first.stdout
    (proxies,) = tmp_path.glob("mnist_study/proxies-*")
    assert '"learning_rate": 0.002' in (proxies / "config.json").read_text()
    (picture,) = tmp_path.rglob("problems_proxies.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = run_small_here("experiments.figure", *arguments)
    assert again.stdout == first.stdout
    assert "step" not in again.stderr  # no bar of a training
    assert len(list(tmp_path.rglob("result.json"))) == 3
    labels = [json.loads(line)["label"] for line in (tmp_path / "rows" / "rows.jsonl").read_text().splitlines()]
    assert len(labels) == 3
    assert {"proxies", "samples"} < set(labels)


@pytest.mark.parametrize(
    ("argument", "choices"),
    [
        ("--anchors=prototypes", "proxies, samples, fixed proxies"),
        ("--budget=huge", "smoke, demo, full"),
        ("--learning_rate=0", "greater than 0"),
        ("--ccp_max_problems=0", "greater than 0"),
        ("--loss=c2", "would have no effect"),
    ],
)
def test_a_wrong_flag_is_explained(digits, tmp_path, argument, choices):
    finished = run_study(f"--data_dir={digits}", f"--runs_dir={tmp_path}", "--budget=smoke", argument)
    check_clean_failure(finished, argument.split("=")[0], choices)
