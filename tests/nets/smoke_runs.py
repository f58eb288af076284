"""Seven short runs, bit-equal between two commits on one machine: weights, embeddings, curves and rows.

Figures differ between machines (vector units), so nothing is stored here: write a file with one checkout, and compare
another with it.

    git worktree add --detach /tmp/before main
    python -m tests.nets.smoke_runs --checkout=/tmp/before --write=/tmp/smoke.json
    python -m tests.nets.smoke_runs --against=/tmp/smoke.json        # of this checkout; exit code 1 if anything differs
    python -m tests.nets.smoke_runs --against=/tmp/smoke.json --only=ms+s2sd,margin+pads

A run takes about 10 seconds of one core. Weights are compared as a set of arrays, so that layers may be renamed and
files may change their format as long as `arrays_of` reads it. Rows are compared figure by figure: a figure that moves
needs its old and new place in `MOVED`. The data are generated photos in folders, and the flags give every value
that a recipe for one's own photos may change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

SHARED = (
    *("--dataset=folder", "--budget=smoke", "--backbone=resnet10", "--weights=none", "--nofrozen_batch_norm"),
    *("--image_size=32", "--crop=reduced", "--embedding_dim=16", "--classes_per_batch=6", "--samples_per_class=2"),
    *("--learning_rate=0.001", "--warm_up_epochs=0", "--warm_up_steps=0", "--num_folds=2", "--fold=0", "--seed=3"),
    *(
        "--max_steps=24",
        "--steps_per_evaluation=4",
        "--patience=6",
        "--plateau_patience=0",
        "--deterministic",
        "--noexport_model",
    ),
)
GSP = ("--num_prototypes=8", "--gsp_memory_size=48")
CCP = ("--proxies_per_class=2", "--pool_size=4", "--projection_patience=1")
RUNS: dict[str, tuple[str, ...]] = {
    "c2+gap": ("--methods=c2+gap", "--recipe=thesis", "--chapter=5"),
    "ms+ccp+gsp": ("--methods=ms+ccp+gsp", "--recipe=thesis", "--chapter=3", *GSP, *CCP),
    "pnca+gsp": ("--methods=pnca+gsp", "--recipe=thesis", "--chapter=5", *GSP),
    "c1+xbm": ("--methods=c1+xbm+gap", "--recipe=thesis", "--chapter=5", "--xbm_start=4", "--xbm_batches=3"),
    "margin+distance+shared+intra+dance": (
        "--methods=margin+distance+shared+intra+dance+gap",
        *("--recipe=revisiting", "--samples_per_class=3"),
    ),
    "margin+pads": ("--methods=margin+pads+gap", "--recipe=revisiting", "--pads_steps=4"),
    "ms+s2sd": ("--methods=ms+s2sd+gap", "--recipe=revisiting", "--s2sd_start=2"),
}
NOT_FIGURES = ("environment", "command", "commit", "deviations", "of")  # and whatever counts seconds or bytes
MOST_SHOWN = 12  # differences of a run
MOVED: dict[str, str] = {}  # places of figures in rows and curves: before, now


def main() -> int:
    """Run, then write or compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.nets.smoke_runs", description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=pathlib.Path, help="write the results to this file")
    parser.add_argument("--against", type=pathlib.Path, help="compare with this file, of the same machine")
    parser.add_argument("--checkout", type=pathlib.Path, default=pathlib.Path.cwd(), help="whose code runs")
    parser.add_argument("--only", default=",".join(RUNS), help="names of runs, separated by commas")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_photos(pathlib.Path(folder) / "photos")
        found = {name: run(name, pathlib.Path(folder), chosen.checkout) for name in chosen.only.split(",")}
    if chosen.write:
        chosen.write.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if not chosen.against:
        return 0
    before = json.loads(chosen.against.read_text(encoding="utf-8"))
    lines = [f"{name}: {line}" for name in found for line in differences(before[name], found[name])]
    print("\n".join(lines) or f"{len(found)} runs: bit-equal")
    return 1 if lines else 0


def differences(before: dict, now: dict) -> Iterator[str]:
    """Yield what differs between two results of a run, settings first."""
    before = {MOVED.get(place, place): value for place, value in before.items()}
    places = [place for place in sorted(before.keys() | now.keys()) if before.get(place) != now.get(place)]
    first = ("row/configuration", "weights", "embeddings", "curve", "row")
    ranked = [place for start in first for place in places if place.startswith(start)]
    for place in [*dict.fromkeys(ranked)][:MOST_SHOWN]:
        yield f"{place}: {before.get(place)} before, {now.get(place)} now"
    if len(places) > MOST_SHOWN:
        yield f"... and {len(places) - MOST_SHOWN} more"


def run(name: str, folder: pathlib.Path, checkout: pathlib.Path) -> dict[str, Any]:
    """Train one run with a checkout's code; return its digests and figures by place."""
    runs = folder / name
    places = (f"--data_dir={folder / 'photos'}", f"--runs_dir={runs}", f"--cache_dir={folder / 'cache'}")
    one_thread = dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"), "1")
    environment = {**os.environ, **one_thread, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(checkout)}
    words = [sys.executable, "-m", "experiments.fair_eval", *SHARED, *RUNS[name], *places]
    done = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    (path,) = {result.parent for result in runs.rglob("result.json")}
    found: dict[str, Any] = {
        f"embeddings {key}": digest(array) for key, array in arrays_of(path / "test_embeddings.npz").items()
    }
    weights = sorted(digest(array) for array in arrays_of(path / "weights.npz").values())
    found["weights"] = hashlib.sha256("".join(weights).encode()).hexdigest()[:16]
    found |= dict(figures("row", json.loads((path / "row.json").read_text())["row"]))
    for line in (path / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        found |= dict(figures(f"curve {record['step']}", record))
    print(f"{name}: {len(found)} digests and figures", file=sys.stderr)
    return found


def arrays_of(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file of a run."""
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def digest(array: np.ndarray) -> str:
    """Return 16 digits of a SHA-256 of type, shape and content."""
    return hashlib.sha256(f"{array.dtype} {array.shape}".encode() + array.tobytes()).hexdigest()[:16]


def figures(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values in nested JSON by their place, except times, sizes and what names the machine."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in NOT_FIGURES and not any(word in key for word in ("second", "minutes", "bytes", "time")):
                yield from figures(f"{place}/{key}", each)
    else:
        yield place, value


def write_photos(folder: pathlib.Path) -> None:
    """Write 24 classes of six photos: coloured patches with noise."""
    rng = np.random.default_rng(0)
    for label in range(24):
        (folder / f"class{label:02d}").mkdir(parents=True)
        patches = np.kron(rng.uniform(0, 255, (6, 6, 3)), np.ones((7, 7, 1)))
        for number in range(6):
            pixels = np.clip(patches + rng.normal(0, 90, patches.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"class{label:02d}" / f"{number}.png")


if __name__ == "__main__":
    sys.exit(main())
