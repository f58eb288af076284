"""Checks of features and PADS against the other settings, before construction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from common.errors import InvalidInput
from experiments.settings.method_names import DANCE, GROUPS, INTRA, PADS, SHARED, LossName, parse_loss
from experiments.settings.methods.features import IN_TURN, SharedSettings, TurnSettings

if TYPE_CHECKING:
    from experiments.settings.config import ExperimentConfig

_IMAGES_OF_INTRA = 3  # an anchor, a positive and a negative of one class


def check_method(name: LossName, method: str) -> None:
    """Raise `InvalidInput` if a loss does not support `--method`.

    Args:
        name: of the loss.
        method: `plain` or `ccp`.
    """
    if method == "ccp" and name.miner == PADS:
        raise InvalidInput(
            f"Invalid --loss with --method=ccp: received {name.base}+{PADS}, whose policy adapts which negatives of a "
            "batch are drawn. Expected a loss without a miner: CCP compares with proxies, draws nothing, and goes back "
            "to earlier weights, so to an earlier distribution. Remove one of the two."
        )


def check_features(config: ExperimentConfig) -> None:
    """Raise `InvalidInput` at the first conflict of features or PADS."""
    name = parse_loss(config.loss)
    check_method(name, config.method)
    objection = next(_objections(config, name), None)
    if objection:
        raise InvalidInput(objection)


def _objections(config: ExperimentConfig, name: LossName) -> Iterator[str]:
    if name.miner == PADS and config.replicas:
        yield (
            "--strategy=mirrored does not go with the miner pads: its policy works on one device. Remove "
            "--strategy and --replicas."
        )
    if name.miner == PADS and config.left_out_images is not None:
        yield (
            "--left_out_images does not go with the miner pads, which holds images back by itself (--pads_images). "
            "Remove it."
        )
    if not name.features:
        return
    count = 1 if config.single_encoder else 1 + len(name.features)
    if config.embedding_dim < count:
        yield (
            f"Invalid --embedding_dim: received {config.embedding_dim} for the {count} features of {config.loss}, "
            f"expected {count} or more: it is the total, which they share. Give more."
        )
    if name.may_take_turns:
        yield from _of_turns(config, name, config.part(TurnSettings))
    if SHARED in name.features:
        yield from _of_shared(config, name, config.part(SharedSettings))
    if GROUPS in name.features and config.replicas:
        yield (
            f"--strategy=mirrored does not go with {config.loss}, whose groups are found on one device. Remove "
            "--strategy and --replicas."
        )
    if INTRA in name.features:
        yield from _of_intra(config, name)
    if DANCE in name.features:
        yield from _of_dance(config)


def _of_turns(config: ExperimentConfig, name: LossName, turns: TurnSettings) -> Iterator[str]:
    in_turn = turns.feature_schedule == IN_TURN
    if in_turn and len(name.features) > 1:
        yield (
            f"Invalid --feature_schedule: received in_turn with {config.loss}, expected joint: turns are for `shared` "
            "or `groups` as the only other feature (algorithm 1). Give --feature_schedule=joint."
        )
    if in_turn and config.method == "ccp":
        yield (
            "--method=ccp with --feature_schedule=in_turn would count each problem's validations over steps of "
            "another task. Give --feature_schedule=joint."
        )
    if in_turn and config.jit_compile:
        yield "--jit_compile cannot compile losses that take turns. Remove it, or give --feature_schedule=joint."


def _of_shared(config: ExperimentConfig, name: LossName, shared: SharedSettings) -> Iterator[str]:
    if shared.single_encoder and (name.features != (SHARED,) or config.decorrelation):
        yield (
            f"--single_encoder puts both tasks on all components, and received {config.loss} with "
            f"--decorrelation={config.decorrelation}. Expected `shared` as the only other feature and "
            "--decorrelation=0: one feature has nothing to be decorrelated from."
        )
    if shared.miner is None:
        yield (
            f"--shared_negatives={shared.shared_negatives} with --shared_positives={shared.shared_positives} is not "
            "drawn here. Expected one of them at its default: --shared_negatives=distance or "
            "--shared_positives=uniform."
        )
    if name.base == "triplet" and shared.shared_negatives == "random":
        yield (
            "--shared_negatives=random over the triplet loss has no gradient where distances differ by less than the "
            "margin, and elsewhere only makes them alike: positive and negative are drawn in the same way. Give "
            "--shared_negatives=distance or semi_hard, or the margin loss."
        )


def _of_intra(config: ExperimentConfig, name: LossName) -> Iterator[str]:
    if name.base == "triplet":
        yield (
            f"{config.loss}: `intra` over the triplet loss only makes the distances within a class alike, for positive "
            "and negative are drawn in the same way. Expected the margin loss (margin+distance+intra), whose boundary "
            "keeps them apart."
        )
    if config.samples_per_class < _IMAGES_OF_INTRA or config.sampler == "spc_r":
        yield (
            f"{config.loss}: `intra` draws triplets within a class, and received "
            f"--samples_per_class={config.samples_per_class} with --sampler={config.sampler}. Expected three or more "
            "images of each class in a batch: give --samples_per_class=4."
        )


def _of_dance(config: ExperimentConfig) -> Iterator[str]:
    if config.replicas:
        yield (
            f"--strategy=mirrored does not go with {config.loss}: it would divide each batch between the first and the "
            "second views. Remove --strategy and --replicas."
        )
    if config.crop == "none" or config.views == 1:
        given = "--crop=none" if config.crop == "none" else "--views=1"
        yield (
            f"{config.loss} compares two views of each image, which {given} makes alike. Expected an augmentation "
            "(--crop) and, with --views or --cached_features, two views or more."
        )
    if config.zero_shot_weight:
        yield (
            f"{config.loss} with --zero_shot_weight={config.zero_shot_weight}: the zero-shot prediction loss is over "
            "the attributes of one view. Give --zero_shot_weight=0."
        )
