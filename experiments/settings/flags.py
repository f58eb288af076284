"""Command-line flags: one per configuration field, and those without effect on results."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import typing
from collections.abc import Callable, Collection, Sequence
from typing import Any

from absl import flags

from common.commands import command_line
from common.commands.command_line import (
    OWN,
    define_joined,
    refuse_flags as refuse_flags,  # one of this module's names
)
from common.commands.exit_code import CHECKPOINTS_KEPT, import_tensorflow
from common.errors import InvalidInput
from experiments.launch.launch_flags import READ_BY
from experiments.parts.kinds import Part
from experiments.parts.registry import TABLES, choices_of_method, part_flags, setting_of
from experiments.settings import build
from experiments.settings.method_names import FORM, parse_method
from experiments.settings.parts import Setting, all_settings, chosen_parts
from experiments.settings.places import DECODED_IMAGES_MB, Places
from experiments.settings.plugins import define_plugin_flag as define_plugin_flag  # one of this module's names
from experiments.settings.removed import removal_of
from experiments.settings.run_settings import BUDGETS, OWN_LOSS, OWN_PHOTOS, RECIPES, THESIS
from experiments.settings.tracker_flags import TRACKER_FLAGS, given_tracker_flags

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

_RUNS = "Where results are, and what of them is made now"
_METHODS = ("methods", "plugin")
_LAUNCH = "Many units at once"
_OF_LAUNCHES = ("launch", *READ_BY)


_DEFINITIONS: dict[type, Callable[..., object]] = {
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
    bool: flags.DEFINE_boolean,
    list: flags.DEFINE_list,
}
METHOD_FIELDS = ("dataset", "loss", "pooling", "method", "recipe", "budget", "chapter", "protocol")


def define_experiment_flags(datasets: typing.Iterable[str] = build.DATASETS) -> None:
    """Define `--dataset`, `--loss`, `--pooling` and the other fields of `ExperimentConfig`.

    By default, a flag takes the recipe's value for this data set, loss and pooling. Plug-ins are loaded first.
    """
    define_plugin_flag()
    flags.DEFINE_string("dataset", "glyphs", f"Data set: one of {', '.join(datasets)}.")
    flags.DEFINE_list("loss", ["pnca"], f"Losses, separated by commas: {', '.join(build.LOSSES)}, or {FORM}.")
    flags.DEFINE_list("pooling", ["gap"], f"Poolings, separated by commas: {', '.join(build.POOLINGS)}.")
    flags.DEFINE_list("method", ["plain"], f"Methods, separated by commas: {', '.join(choices_of_method())}.")
    recipes = f"{', '.join(RECIPES)}, or a file that `experiments.tune` has written"
    by_default = f"default: {OWN_PHOTOS} for your own photos, whose loss is {OWN_LOSS}, else {THESIS}"
    flags.DEFINE_string("recipe", None, f"Text, code or choice to follow: {recipes} ({by_default}).")
    flags.DEFINE_integer("chapter", None, "Whose settings: 3 (CCP and its baselines) or 5 (GSP and its baselines).")
    flags.DEFINE_string("budget", "full", f"Length of training: {', '.join(BUDGETS)}.")
    of_parts = part_flags()
    for each in all_settings():
        if each.name not in METHOD_FIELDS:
            within = f"; in {each.metadata['within']}" if each.metadata["within"] else ""
            default = "" if "default: " in each.metadata["help"] else " (default: the recipe's)"
            define_it = define_joined if each.metadata["repeats"] else _DEFINITIONS[each.kind]
            alone = "".join(f", --{flag}" for flag, (_, name) in of_parts.items() if name == each.name)
            alone = f"; of one part: {alone[2:]}" if alone else ""
            own = ", ".join(name for name, part in TABLES.get(each.name, {}).items() if part.provider)
            alone += f"; of plug-ins: {own}" if own else ""
            define_it(each.name, None, f"{each.metadata['help']}{within}{default}{alone}.")
    kinds = {each.name: each.kind for each in all_settings()}
    for flag, (part, name) in of_parts.items():
        metadata = setting_of(part, name)
        within = f"; in {metadata['within']}" if metadata["within"] else ""
        _DEFINITIONS[kinds[name]](flag, None, f"{metadata['help']}{within}; or --{name}.")


PLACE_FLAGS = ("data_dir", "cache_dir", "runs_dir")
SESSION_FLAGS = ("checkpoint_seconds", "deterministic")
UNIT_FLAGS = (*SESSION_FLAGS, "decoded_images_mb", "allow_cpu")  # of commands that train units
RECORD_FLAGS = ("record", "replace")
METHODS_FLAGS = ("explain", "methods")  # of commands that compare methods
# Flags that change no result: type, default, text and lower bound of each.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "data_dir": (str, None, "Folder of the data set's official files; none for embedded data sets."),
    "cache_dir": (str, None, "Folder for prepared images and features (default: ~/.cache/deep_metric_learning)."),
    "runs_dir": (str, "runs", "Folder for results."),
    "record": (str, None, "Folder of a study, such as results/mine, to whose rows finished runs are added."),
    "replace": (bool, False, "Overwrite rows that have the same key."),
    "checkpoint_seconds": (float, 30.0, "Shortest time between two checkpoints, in seconds; in [0, inf).", 0),
    "decoded_images_mb": (
        int,
        DECODED_IMAGES_MB,
        "Validation images of a unit stay decoded in memory if they take at most so many MB (10^6 bytes), so that each "
        "is decoded once and not at every validation; 0: never. The figures are the same.",
        0,
    ),
    "allow_cpu": (bool, False, "Allow runs estimated to take more than 24 hours on the CPU."),
    "deterministic": (bool, False, "Make runs bit-for-bit reproducible across threads and on GPUs (slower)."),
    "report_only": (bool, False, "Train nothing; report what is finished."),
    "details": (
        bool,
        False,
        "Also print the report's Markdown files: all intervals, tests, margins and reasons of verdicts.",
    ),
    "explain": (bool, False, "Print every value of each method with the layer that set it, and end."),
    "export_model": (bool, True, "Write model.keras, which needs no data, into each finished run."),
    "methods": (
        list,
        None,
        "Instead of --loss, --method and --pooling: methods by their names in reports, such as c2+gap,c2+xbm+gap,"
        "c2+ccp+gsp; the fair protocol compares each with the first.",
    ),
}
# What `--help` shows, in the order in which one needs it.
_USUAL: dict[str, tuple[str, ...]] = {
    "This command": ("id",),
    "Data": ("dataset", "data_dir", "recipe"),
    "What is compared": ("methods", "loss", "pooling", "plugin"),
    "Network": ("backbone", "weights", "trained_from", "image_size", "embedding_dim"),
    "Training": ("budget", "max_steps", "learning_rate", "classes_per_batch", "samples_per_class", "precision"),
    "Runs and results": ("explain", "runs_dir", "repeats", "report_only", "record", "launch"),
}
_OF_RUNS = (*_WITHOUT_EFFECT, "fold", "repeat", "repeats", "run", "max_cells", *TRACKER_FLAGS)


def define(*names: str) -> None:
    """Define flags that change no result, such as `PLACE_FLAGS`."""
    for name in names:
        kind, *arguments = _WITHOUT_EFFECT[name]
        _DEFINITIONS[kind](name, *arguments)


def places_from(values: flags.FlagValues) -> Places:
    """Return the values of the flags that `PLACE_FLAGS`, `UNIT_FLAGS` and perhaps `RECORD_FLAGS` name."""
    record = {"study": values.record, "replace": values.replace} if "record" in values else {}
    elsewhere = "launch" in values and values.launch == "slurm"  # whose nodes have other devices
    return Places(
        values.runs_dir,
        values.cache_dir,
        values.data_dir,
        values.decoded_images_mb,
        values.allow_cpu or elsewhere,
        **record,
    )


def unit_values(values: flags.FlagValues) -> dict[str, object]:
    """Return the values of `PLACE_FLAGS`, `UNIT_FLAGS`, plug-ins and trackers, for commands of single units."""
    names = (*PLACE_FLAGS, *UNIT_FLAGS, "plugin")
    return {name: values[name].value for name in names} | given_tracker_flags(values)


def define_run_flags(units: typing.Iterable[str] = ("fold", "repeat"), repeats: int = 1) -> None:
    """Define folders, repeats, and flags that select a unit of a job array."""
    define(*PLACE_FLAGS, *UNIT_FLAGS, *RECORD_FLAGS, "report_only", "details")
    for name in units:
        flags.DEFINE_integer(name, None, f"Run this {name} only (a unit of a job array).", lower_bound=0)
    flags.DEFINE_integer(
        "repeats",
        repeats,
        "Runs of each unit, with different seeds; the thesis has one in chapter 3 and three in chapter 5.",
        lower_bound=1,
    )


def run_command(main: Callable[..., None], kept: str | None = None, *, takes_words: bool = False) -> None:
    """Run `main`; see `command_line.run_command`.

    With `define_experiment_flags`, a short `--help` shows the usual flags.

    Args:
        kept: a sentence on what a stopped command has kept, by default that of training commands.
        takes_words: whether `main` receives all words that are no flags.
    """

    def prepared(*words: str) -> None:
        if "deterministic" in flags.FLAGS and flags.FLAGS.deterministic:
            config = import_tensorflow().config
            config.experimental.enable_op_determinism()
            # It merges sums, and TensorFlow adds three or more terms in the order in which their buffers are free.
            config.optimizer.set_experimental_options({"arithmetic_optimization": False})
        main(*words)

    if kept is None:
        kept = CHECKPOINTS_KEPT if "checkpoint_seconds" in flags.FLAGS else ""
    compares = "chapter" in flags.FLAGS  # as `define_experiment_flags` alone defines it
    sections = functools.partial(_sections_of, all_settings() if compares else ())
    short = _short_sections if compares else dict
    command_line.run_command(
        prepared, kept, takes_words=takes_words, remedy=_remedy, sections_of=sections, short_sections_of=short
    )


def _remedy(name: str) -> str:
    """Return a sentence on a flag that is gone or belongs to other commands."""
    if name == "launch":
        return (
            "This command has no units to launch; experiments.fair_eval, experiments.table and experiments.figure have."
        )
    return removal_of(f"--{name}")


def _sections_of(of_settings: Sequence[Setting]) -> dict[str, list[str]]:
    """Return flags by the title of their section in `--help`, in order."""
    settings = {each.name: each.section for each in of_settings}
    first = next(iter(settings.values()), OWN)
    section_of = dict.fromkeys(_OF_RUNS, _RUNS) | dict.fromkeys(_OF_LAUNCHES, _LAUNCH)
    section_of |= dict.fromkeys(_METHODS, first) | settings
    sections: dict[str, list[str]] = {title: [] for title in (first, OWN, _RUNS, _LAUNCH, *settings.values())}
    for name, title in section_of.items():
        sections[title].append(name)
    return sections


def _short_sections() -> dict[str, Collection[str]]:
    """Return the usual flags, and those of the parts that are named."""
    return {**_USUAL, **{part.settings.title: part.flags for part in _asked_parts()}}


def _asked_parts() -> list[Part]:
    """Return the parts that the command line names, before it is parsed."""
    words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
    losses, methods, poolings = (words.get(name, "").split(",") for name in ("loss", "method", "pooling"))
    asked = [*itertools.product(losses, methods, poolings)]
    with contextlib.suppress(InvalidInput):  # raised where the command reads the name
        asked += [parse_method(name) for name in words.get("methods", "").split(",") if name]
    named = [{**words, **dict(zip(("loss", "method", "pooling"), each))} for each in asked]
    found = [part for each in named for part in chosen_parts(each)]
    return list({part.settings.title: part for part in found if part.name != "regularizers"}.values())
