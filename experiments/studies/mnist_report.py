"""Runs, tables and picture of the MNIST study (thesis figure 3.2).

Recorded runs are outside any protocol; seeds are repeats.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ccp_dml.projection_problem import snapshot_path
from common import retrieval
from common.data import Dataset
from common.errors import check_given
from common.files import read_arrays, read_json, write_json, write_text
from common.records import RunDirectory
from experiments import reports
from experiments.reports import Table
from experiments.reports.scores import Scores
from experiments.reports.tables import cell, figures_table
from experiments.rows.rows import Row
from experiments.rows.run_folders import run_row
from experiments.studies.geometry import mean_covering_radius, mean_distance_between_classes
from experiments.studies.mnist import MnistSettings
from experiments.studies.plane_panels import PlanePanel, plane_panels

PANEL_NAMES = ("(a)", "(b.1)", "(b.2)", "(b.3)", "(b.4)")
_NUM_DRAWN = 3000
PROTOCOL, DATASET = "mnist_study", "mnist"
DRAWN = "proxies"  # whose first run the picture shows
_FIXED = "fixed proxies"
_DIGITS = 6  # of recorded figures
# MAP@R, covering radius and distance of the panels of figure 3.2. The text has lost which figure belongs to which
# panel; here they are in the order of MAP@R.
PRINTED_PANELS = ((0.85, 0.52, 0.96), (0.87, 0.54, 0.92), (0.92, 0.43, 0.97), (0.96, 0.30, 1.36), (0.97, 0.27, 1.31))
PRINTED_MAP_AT_R = {"proxies": 97.21, "samples": 98.06}


@dataclasses.dataclass(frozen=True)
class State:
    """Test digits after a solved problem, or before any."""

    index: int  # problems solved so far
    steps: int  # in the last solved problem; at first, those before any
    map_at_r: float
    distance: float
    cover_of_converged: float | None  # pools' covering radius by the converged representatives; None at first
    cover_of_chosen: float  # the same by the next ones


def as_long_as(runs: Sequence[Row], settings: MnistSettings, repeat: int) -> MnistSettings:
    """Give fixed proxies as many steps as CCP with the same seed, if trained."""
    steps = [run["steps"] for run in runs if (run["configuration"]["anchors"], run["repeat"]) == ("proxies", repeat)]
    if settings.anchors != _FIXED or not steps:
        return settings
    return dataclasses.replace(settings, max_steps=steps[0])


def trained(
    settings: MnistSettings, fingerprint: str, repeat: int, runs_dir: str, dataset: Dataset, checkpoint_seconds: float
) -> Row:
    """Train one network unless it is finished; return its run."""
    run = _directory(settings, fingerprint, runs_dir)
    if run.read_result() is None:
        from experiments.studies.mnist_training import MnistTraining

        with run.locked():
            MnistTraining(settings, dataset, run).train(checkpoint_seconds)
    return check_given("run", finished_run(settings, fingerprint, repeat, runs_dir))


def finished_run(settings: MnistSettings, fingerprint: str, repeat: int, runs_dir: str) -> Row | None:
    """Return a finished run, or None; its configuration names the data and has no seed."""
    run = _directory(settings, fingerprint, runs_dir)
    result = run.read_result()
    if result is None:
        return None
    config = {name: value for name, value in settings.as_dict().items() if name != "seed"}
    return run_row(run.path, 0, repeat, {**config, "data": fingerprint, "dataset": DATASET}, result)


def _directory(settings: MnistSettings, fingerprint: str, runs_dir: str) -> RunDirectory:
    identity = {**settings.as_dict(), "data": fingerprint}
    digest = hashlib.sha256(repr(sorted(identity.items())).encode()).hexdigest()[:10]
    name = f"{settings.anchors.replace(' ', '_')}-{digest}"
    return RunDirectory(pathlib.Path(runs_dir) / PROTOCOL / name, identity)


def write_report(runs: Sequence[Row], dataset: Dataset, folder: pathlib.Path) -> str:
    """Write tables, figures and pictures of finished runs; return terminal text."""
    texts = []
    by_anchors = {
        anchors: [run for run in runs if run["configuration"]["anchors"] == anchors]
        for anchors in dict.fromkeys(run["configuration"]["anchors"] for run in runs)
    }
    for anchors, of_kind in by_anchors.items():
        if anchors == _FIXED:
            continue
        states = [states_of(run, dataset) for run in of_kind]
        name = f"problems_{anchors}"
        table = problems_table(anchors, states)
        picture = folder / f"{name}.png"
        drawn = drawn_digits(dataset)
        snapshots = [snapshot_of(of_kind[0].folder, state.index, drawn) for state in states[0]]
        draw_states(states[0], snapshots, dataset.test.labels[drawn], dataset.class_names, picture, anchors)
        write_text(folder / f"{name}.md", table.as_markdown())
        texts.append(table.as_text() + f"Panels: {picture}\n")
    texts.append(_comparison(by_anchors, dataset, folder))
    return "\n".join(texts)


def states_of(run: Row, dataset: Dataset) -> list[State]:
    """Measure the states at problem borders once; keep them beside the run."""
    path = run.folder / "states.json"
    kept = read_json(path)
    if kept is None:
        states = [_measure(run, index, dataset) for index in range(len(run["extras"]["problems"]))]
        kept = {"states": [dataclasses.asdict(state) for state in states]}
        write_json(path, kept)
    return [State(**state) for state in kept["states"]]


def _measure(run: Row, index: int, dataset: Dataset) -> State:
    arrays, labels = read_arrays(snapshot_path(run.folder, index)), dataset.test.labels
    pool_size, problems = run["configuration"]["pool_size"], run["extras"]["problems"]
    cover = {
        name: mean_covering_radius(arrays["queries"], labels, arrays[name], pool_size) if name in arrays else None
        for name in ("converged", "chosen")
    }
    return State(
        index=index,
        steps=problems[index - 1]["steps"] if index else problems[0]["start_step"],
        map_at_r=retrieval.evaluate_retrieval(arrays["queries"], labels).map_at_r,
        distance=mean_distance_between_classes(arrays["queries"], labels),
        cover_of_converged=cover["converged"],
        cover_of_chosen=check_given("chosen proxies", cover["chosen"]),
    )


def problems_table(anchors: str, states: Sequence[Sequence[State]]) -> Table:
    """Tabulate the first run's states beside printed panels; describe all runs' direction."""
    header = ["after", "steps", "MAP@R", "printed", "cover", "printed", "next cover", "E|x - x-|", "printed"]
    rows = []
    for state in states[0]:
        solved = 0 < state.index <= len(PANEL_NAMES) and anchors == "proxies"
        printed = [f"{value:.2f}" for value in PRINTED_PANELS[state.index - 1]] if solved else ["-"] * 3
        cells = [_number(state.map_at_r), printed[0], _number(state.cover_of_converged), printed[1]]
        cells += [_number(state.cover_of_chosen), _number(state.distance), printed[2]]
        rows.append([state_name(state.index), str(state.steps), *cells])
    notes = [direction(run_states, repeat) for repeat, run_states in enumerate(states)]
    notes.append(
        "cover: distance to the nearest converged representative, the largest in a pool of test digits of a class, "
        "mean over pools and classes; next cover: the same for the representatives chosen next."
    )
    return Table(f"MNIST in the plane, {anchors}: one line per projection problem (seed 1)", header, rows, notes)


def direction(states: Sequence[State], repeat: int) -> str:
    """State whether MAP@R rose and the covering radius fell over the problems."""
    solved = [state for state in states if state.index]
    if len(solved) < 2:
        return f"seed {repeat + 1}: fewer than two problems were solved, so there is no direction to see."
    first, last = solved[0], solved[-1]
    before, after = (check_given("covering radius", state.cover_of_converged) for state in (first, last))
    verdicts = [
        change("MAP@R", first.map_at_r, last.map_at_r, "rises"),
        change("covering radius", before, after, "falls"),
    ]
    return f"seed {repeat + 1}: " + "; ".join(verdicts) + "."


def change(name: str, before: float, after: float, expected: str) -> str:
    """State a figure's direction and the thesis' one (`expected`: "rises" or "falls")."""
    holds = after > before if expected == "rises" else after < before
    verdict = f"{expected} as printed" if holds else f"does not go as printed ({expected} there)"
    return f"{name} {before:.3f} -> {after:.3f}, {verdict}"


def _comparison(by_kind: Mapping[str, Sequence[Row]], dataset: Dataset, folder: pathlib.Path) -> str:
    """Compare anchors by test MAP@R at best validation: intervals, printed figures, verdicts."""
    scores = {kind: Scores(of_kind) for kind, of_kind in by_kind.items()}
    rows = []
    for kind, of_kind in by_kind.items():
        estimate = scores[kind].estimate("MAP@R")
        printed = _printed_cell(kind)
        target = reports.Target(printed, reasons=tuple(_reasons(of_kind, dataset))) if printed else None
        maps = [run["test"]["MAP@R"] for run in of_kind]
        cells = {
            ("test", "MAP@R"): cell(estimate, target),
            ("lowest", "seed"): cell(min(maps)),
            ("highest", "seed"): cell(max(maps)),
        }
        if kind != "proxies" and "proxies" in scores:
            cells["minus proxies", "MAP@R"] = cell(
                scores[kind].difference(scores["proxies"], "MAP@R"), is_difference=True
            )
        rows.append(reports.TableRow(kind, cells))
    seeds = {run["repeat"] for runs in by_kind.values() for run in runs}
    title = f"MNIST, {len(dataset.test):,} test digits, {len(seeds)} seed(s)"
    return figures_table(rows, title).write(folder, "samples_and_proxies")


def _printed_cell(anchors: str) -> reports.PublishedValue | None:
    if anchors not in PRINTED_MAP_AT_R:
        return None
    return reports.PublishedValue(
        value=PRINTED_MAP_AT_R[anchors],
        table="section 3.3.1",
        method=anchors,
        backbone="ResNetV2-20",
        dim="2",
        dataset="MNIST",
        metric="MAP@R",
    )


def _reasons(runs: Sequence[Row], dataset: Dataset) -> list[str]:
    """List reasons why these runs cannot be compared with the thesis."""
    standard = MnistSettings().as_dict()
    of_runs = standard.keys() - {"anchors", "seed"}
    changed = {name for run in runs for name in of_runs if run["configuration"][name] != standard[name]}
    reasons = [f"data set: {deviation}" for deviation in dataset.deviations]
    return reasons + ([f"other settings than the full budget's ({', '.join(sorted(changed))})"] if changed else [])


def drawn_digits(dataset: Dataset) -> np.ndarray:
    """Choose the test digits of pictures at random, as rows `[digits]`."""
    return np.random.default_rng(0).permutation(len(dataset.test))[:_NUM_DRAWN]


def snapshot_of(path: pathlib.Path, index: int, drawn: np.ndarray) -> dict[str, np.ndarray]:
    """Return the drawn test digits `queries`, the next proxies `chosen`, and those `converged`."""
    arrays = read_arrays(snapshot_path(path, index))
    return {**arrays, "queries": arrays["queries"][drawn]}


def draw_states(
    states: Sequence[State],
    snapshots: Sequence[Mapping[str, np.ndarray]],
    labels: np.ndarray,
    class_names: Sequence[str],
    path: pathlib.Path,
    anchors: str,
) -> None:
    """Draw a panel for each state of a run, from its snapshots (see `snapshot_of`)."""
    panels = []
    for state, arrays in zip(states, snapshots):
        figures = f"MAP@R {state.map_at_r:.3f}   cover {_number(state.cover_of_converged)}"
        title = f"{state_name(state.index)}\n{figures}   E|x - x-| {state.distance:.2f}"
        panels.append(PlanePanel(title, arrays["queries"], labels, arrays.get("converged"), arrays["chosen"]))
    title = f"{len(labels):,} MNIST test digits in the plane before and after each projection problem, {anchors}"
    plane_panels(panels, path, class_names=class_names, title=title)


def state_name(index: int) -> str:
    """Return the thesis' name of the state after `index` problems."""
    if index == 0:
        return "before problem 1"
    name = PANEL_NAMES[index - 1] if index <= len(PANEL_NAMES) else f"(b.{index - 1})"
    return f"{name} problem {index}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def recordable(runs: Sequence[Row], dataset: Dataset) -> list[Row]:
    """Return each finished run's row with states and drawn digits."""
    kinds = list(dict.fromkeys(run["configuration"]["anchors"] for run in runs))
    found = []
    for run in runs:
        anchors = run["configuration"]["anchors"]
        digest = hashlib.sha256(repr(sorted(run.config.items())).encode()).hexdigest()[:10]
        place = {"protocol": PROTOCOL, "dataset": DATASET, "method": anchors, "config_hash": digest}
        extras = {"place": kinds.index(anchors), "held against": None if anchors == DRAWN else DRAWN}
        row = _measured(run.scored().with_values(**place), dataset)
        found.append(row.named(label_of(run), extras))
    return found


def label_of(run: Row) -> str:
    """Name a run's kind; fixed proxies train as long as their seed's others."""
    anchors = run["configuration"]["anchors"]
    return f"{anchors}, {run['configuration']['max_steps']:,} steps" if anchors == _FIXED else anchors


def _measured(run: Row, dataset: Dataset) -> Row:
    states = states_of(run, dataset)
    found = [_rounded(state) for state in states]
    values = {"states": found, "class_names": list(dataset.class_names), **_ends(found[1:])}
    if run["configuration"]["anchors"] != DRAWN or run["repeat"]:
        return run.with_extras(values)
    drawn = drawn_digits(dataset)
    arrays = {"labels": dataset.test.labels[drawn].astype(np.uint8)}
    for state in states:
        snapshot = snapshot_of(run.folder, state.index, drawn)
        arrays |= {f"{name}_{state.index}": of.astype(np.float32) for name, of in snapshot.items()}
    return run.with_extras(values, arrays)


def _ends(solved: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return MAP@R and covering radius after the first and last problem, for quotes."""
    ends = {"first": solved[0], "last": solved[-1]} if solved else {}
    quoted = {"map_at_r": "map_at_r", "cover": "cover_of_converged"}
    return {f"{name}_{end}": state[of] for end, state in ends.items() for name, of in quoted.items()}


def _rounded(state: State) -> dict[str, Any]:
    values = dataclasses.asdict(state)
    return {name: round(value, _DIGITS) if isinstance(value, float) else value for name, value in values.items()}


def recorded_states(row: Mapping[str, Any]) -> list[State]:
    """Return the states that a row keeps."""
    return [State(**state) for state in row["extras"]["states"]]
