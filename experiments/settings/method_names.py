"""Parts of a loss's name: `LOSS[+MINER[+rho]][+xbm][+FEATURES]`, e.g. `margin+distance+shared+dance`."""

from __future__ import annotations

from typing import NamedTuple

from common.errors import invalid
from experiments.settings.methods.loss_table import PAIR_LOSSES, PROXY_LOSSES

PADS = "pads"
MINERS = {
    "random": "random",
    "semihard": "semi_hard",
    "softhard": "soft_hard",
    "distance": "distance_weighted",
    "interclass": "inter_class",
    PADS: PADS,
}
SHARED, GROUPS, INTRA, DANCE = FEATURES = ("shared", "groups", "intra", "dance")
FORM = "PAIR_LOSS[+MINER[+rho]][+xbm][+shared or +groups][+intra][+dance]"


class LossName(NamedTuple):
    """The parts of a loss's name."""

    base: str
    miner: str | None  # a value of `MINERS`; None: all tuples
    switches: bool  # rho-regularised
    memory: bool  # in a cross-batch memory
    features: tuple[str, ...] = ()  # more features beside the discriminative one, in the order of `FEATURES`

    @property
    def may_take_turns(self) -> bool:
        """True if a feature is shared by classes: its task may alternate."""
        return SHARED in self.features or GROUPS in self.features


def split_loss(parts: list[str]) -> tuple[LossName, list[str]]:
    """Split a name's parts into its leading loss and the rest."""
    base, *rest = parts
    miner = MINERS.get(rest[0]) if rest else None
    rest = rest[1:] if miner else rest
    switches = bool(miner) and rest[:1] == ["rho"]
    rest = rest[1:] if switches else rest
    memory = rest[:1] == ["xbm"]
    rest = rest[1:] if memory else rest
    features = []
    for word in FEATURES:
        if rest[:1] == [word]:
            features.append(word)
            rest = rest[1:]
    return LossName(base, miner, switches, memory, tuple(features)), rest


def parse_loss(name: str) -> LossName:
    """Return the parts of a loss's name, even of an unknown loss.

    Raises:
        InvalidInput: it has another form, parts that only pair losses allow, or mutually exclusive ones.
    """
    loss, rest = split_loss(name.split("+"))
    if {SHARED, GROUPS} <= {*loss.features}:
        fix = "Leave one out: groups are another way to find what classes share."
        raise invalid("--loss", received=name, expected=f"either {SHARED} or {GROUPS}", fix=fix)
    over_proxies = loss.base in PROXY_LOSSES and not (loss.miner or loss.memory)
    if rest or (name != loss.base and loss.base not in PAIR_LOSSES and not over_proxies):
        words = ", ".join(FEATURES)
        raise invalid(
            "--loss",
            received=name,
            expected=f"a loss, or {FORM} with a pair loss ({', '.join(PAIR_LOSSES)}) and a miner ({', '.join(MINERS)})",
            fix=f"Proxy losses take the features alone ({words}), which stand in this order.",
        )
    return loss


def without_features(name: str) -> str:
    """Return a loss's name without the additional features."""
    return "+".join(part for part in name.split("+") if part not in FEATURES)


def uses_gsp(pooling: str) -> bool:
    """Return whether a pooling is generalized sum pooling, alone or combined."""
    return pooling == "gsp" or pooling.endswith("+gsp")


def method_name(loss: str, method: str, pooling: str) -> str:
    """Return a method's name in tables and folders: loss, `ccp`, pooling."""
    return "+".join([loss, *(["ccp"] if method == "ccp" else []), pooling])
