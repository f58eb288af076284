"""The exported names of the public packages, with their signatures as text."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

PACKAGES = (
    *("deep_metric_learning", "gsp_dml", "ccp_dml", "milbich_dml"),
    *("common.backbones", "common.data", "common.deployment", "common.diagnostics", "common.downloads", "common.files"),
    *("photo_search.index", "common.losses", "common.miners", "common.pooling", "common.records", "common.references"),
    *("common.retrieval", "common.training", "common.training.trackers"),
)
# Names meant to go, such as "photo_search.index.Reranking", or of a whole package "photo_search.index.".
REMOVED: tuple[str, ...] = (
    "deep_metric_learning.",  # an explicit list now
    *("common.records.GpuEnergy", "common.records.PackageEnergy"),
    *("common.retrieval.QueryScores", "common.retrieval.merge_scores", "common.retrieval.score_queries"),
    *("common.data.ShardedImages", "common.data.choose_copies", "common.data.chosen_copies"),
    *("common.downloads.mirrored", "common.training.trackers.NoTracker", "common.training.trackers.Tracker"),
    # Now those of `milbich_dml`.
    *(f"common.diagnostics.{name}" for name in ("CompactGroups", "compact_groups")),
    *("common.losses.DecorrelationLoss", "common.losses.DistanceAdaptedContrastLoss", "common.losses.GroupLabelsLoss"),
    *("common.losses.InTurnLoss", "common.losses.LabelColumnLoss", "common.losses.PermutedLabelsLoss"),
    *("common.losses.ViewLoss", "common.losses.feature_sizes", "common.losses.feature_tasks_loss"),
    *("common.miners.SamplingDistribution", "common.miners.binned", "common.miners.bins_of"),
    *("common.training.Decision", "common.training.PolicyAdaptedSampling", "common.training.PolicyRules"),
    *("common.training.Regrouping", "common.training.SamplingPolicy", "common.training.SamplingRecord"),
    *("common.training.classes_per_group", "common.training.held_back_figures", "common.training.without_classes"),
    *("deep_metric_learning.QueryScores", "deep_metric_learning.merge_scores", "deep_metric_learning.score_queries"),
)


def exported() -> dict[str, list[str]]:
    """Return by `package.name` the signature of a function, or of a class' constructor and public methods.

    The facade's names are those of other packages: they are listed without signatures.
    """
    found: dict[str, list[str]] = {}
    for package in PACKAGES:
        try:
            module = importlib.import_module(package)
        except ModuleNotFoundError:
            continue  # its names are then missing, which `REMOVED` has to say
        for name in module.__all__:
            value = getattr(module, name)
            found[f"{package}.{name}"] = [] if package == "deep_metric_learning" else [*_signatures(value)]
    return dict(sorted(found.items()))


def _signatures(value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield _text(value.__init__) if "__init__" in vars(value) else f"as {value.__mro__[1].__name__}"
        for name, member in sorted(vars(value).items()):
            function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            if not name.startswith("_") and inspect.isfunction(function):
                yield name + _text(function)
            elif not name.startswith("_") and isinstance(member, property):
                yield name
    elif callable(value):
        yield _text(value)
    else:
        yield type(value).__name__


def _text(function: Any) -> str:
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(function)))
    except (TypeError, ValueError):
        return "(?)"


def unlisted_removals(before: dict[str, list[str]], now: dict[str, list[str]]) -> list[str]:
    """Return the names that are gone without being in `REMOVED`."""
    return sorted(name for name in before.keys() - now.keys() if not (REMOVED and name.startswith(REMOVED)))
