"""One loss for several features of an embedding, each with its own task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.errors import check_non_negative, invalid
from common.losses.component_loss import ComponentLoss
from common.losses.metric_loss import MetricLoss
from common.losses.weighted_sum import WeightedSumLoss
from milbich_dml.decorrelation import DecorrelationLoss
from milbich_dml.in_turn import InTurnLoss
from milbich_dml.label_column import CLASS, PLACE, LabelColumnLoss
from milbich_dml.views import ViewLoss

TASKS = ("disc_2", "disc_3", "disc_4", "shared", "groups", "intra", "dance")
_IN_TURN = (["shared"], ["groups"])


def feature_sizes(embedding_dim: int, num_features: int) -> tuple[int, ...]:
    """Return each feature's components, `D // H`; the remainder goes to the first (discriminative).

    Args:
        embedding_dim: D, components of the whole embedding.
        num_features: H, from 1 to D.

    Raises:
        InvalidInput: more features than components, or none.

    Examples:
        >>> feature_sizes(128, 3)
        (44, 42, 42)
    """
    if not 1 <= num_features <= embedding_dim:
        raise invalid("num_features", received=num_features, expected=f"1 to {embedding_dim}, the components")
    size = embedding_dim // num_features
    return (embedding_dim - (num_features - 1) * size, *[size] * (num_features - 1))


def feature_tasks_loss(
    discriminative: MetricLoss,
    tasks: Mapping[str, MetricLoss],
    sizes: Sequence[int],
    *,
    weight: float = 1.0,
    decorrelation: float = 0.0,
    reduction: str = "mean",
    hidden: int = 512,
    in_turn: bool = False,
) -> MetricLoss:
    """Build the loss of DiVA and its subsets, shared features, or MIC's groups.

    It is `L_disc + α Σ_t L_t - w Σ_t c(φ_disc, φ_t)`. The slices present have the order disc, disc_2 to disc_4
    (heads of the same task), shared, groups, intra, dance. With `dance` the loss takes batches of two views: the other
    tasks see the first view, `dance` compares the two. With `groups` labels are rows of class and place `[batch, 2]`
    (`LabelColumnLoss`). With `in_turn` the discriminative task and `shared` or `groups` alternate from step to step,
    and decorrelate in each.

    Reference: Milbich's dissertation, equations 4.11 and 4.12 (all α and all weights equal), equation 3.3 (`groups`),
    and algorithm 1 (`in_turn`). With decorrelation, its public code decorrelates (shared, dance) as well if there is no
    intra.

    Args:
        discriminative: the loss of the first slice; each loss is made for embeddings of its slice's size.
        tasks: losses by their names in `TASKS`, at least one; those of one sum need seeds of their own. The one of
            `groups` takes places for labels, as `GroupLabelsLoss` does.
        sizes: components of the slices; see `feature_sizes`.
        weight: α, at least 0.
        decorrelation: w, at least 0; with 0 there is no `DecorrelationLoss`.
        reduction, hidden: of the decorrelation; see `DecorrelationLoss`.
        in_turn: for `shared` or `groups` as the only task.

    Returns:
        A `MetricLoss` of embeddings `[batch, sum(sizes)]`.

    Raises:
        InvalidInput: an unknown task, other sizes than features, or `in_turn` with other tasks.

    Examples:
        >>> shared = MinedLoss(MarginLoss(), "inter_class", seed=1)
        >>> loss = feature_tasks_loss(MinedLoss(MarginLoss()), {"shared": shared}, (64, 64), decorrelation=1000.0)
    """
    check_non_negative("weight", weight)
    check_non_negative("decorrelation", decorrelation)
    sizes, names = tuple(sizes), _checked_names(tasks, sizes, in_turn)
    parts = _on_slices({"disc": discriminative, **{name: tasks[name] for name in names}}, sizes)
    first, *one_view = (part for name, part in parts.items() if name != "dance")
    total = [(InTurnLoss([first, *one_view]), 1.0)] if in_turn else [(first, 1.0), *((x, weight) for x in one_view)]
    if decorrelation:
        pairs = [(0, slot) for slot in range(1, len(sizes))]
        total.append((DecorrelationLoss(sizes, pairs, decorrelation, hidden, reduction), 1.0))
    if "dance" not in parts:
        return _sum(total)
    dance = ViewLoss(parts["dance"], first_alone=False)
    return _sum([(ViewLoss(_sum(total), first_alone=True), 1.0), (dance, weight)])


def _checked_names(tasks: Mapping[str, MetricLoss], sizes: Sequence[int], in_turn: bool) -> list[str]:
    """Return the tasks in the order of their slices."""
    names = [name for name in TASKS if name in tasks]
    if not names or len(names) != len(tasks):
        raise invalid("tasks", received=list(tasks), expected=f"at least one of {', '.join(TASKS)}")
    if len(sizes) != len(names) + 1:
        expected = f"{len(names) + 1} numbers, for disc, {', '.join(names)}"
        raise invalid("sizes", received=tuple(sizes), expected=expected)
    if in_turn and names not in _IN_TURN:
        raise invalid("in_turn", received=names, expected="shared or groups as the only task")
    return names


def _on_slices(losses: Mapping[str, MetricLoss], sizes: Sequence[int]) -> dict[str, MetricLoss]:
    """Restrict each loss to its slice; beside `groups`, also to its label column."""
    parts: dict[str, MetricLoss] = {}
    for slot, (name, loss) in enumerate(losses.items()):
        parts[name] = ComponentLoss(loss, sum(sizes[:slot]), sizes[slot])
        if "groups" in losses and name != "dance":  # whose labels are its own
            parts[name] = LabelColumnLoss(parts[name], PLACE if name == "groups" else CLASS)
    return parts


def _sum(weighted: list[tuple[MetricLoss, float]]) -> WeightedSumLoss:
    return WeightedSumLoss([loss for loss, _ in weighted], [weight for _, weight in weighted])
