"""The losses by name, and the names of methods: `LOSS[+MINER[+rho]][+xbm][+s2sd][+FEATURES][+ccp]+POOLING`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from common.errors import invalid, nearest_choice
from experiments.parts.library import FEATURES
from experiments.parts.registry import LOSSES, MINERS, PLAIN, POOLINGS, Loss, choices_of_method
from experiments.parts.signatures import constructor_name

_OTHER_NAMES = {
    "xbm": "c2+xbm",
    "cross_batch_memory": "c2+xbm",
    "proxynca++": "pnca",
    "softmax": "normsoftmax",
    "nt_xent": "supcon",
    "infonce": "npair",
    "ccp": "c2 with --method=ccp",
}


def suggested_loss(name: str) -> str | None:
    """Ask for the loss that an unknown name may mean, or return None.

    Usual names and those of classes are known.
    """
    base, *rest = name.removesuffix("++").split("+")
    of_classes: dict[str, str] = {}
    for each, loss in LOSSES.items():
        of_classes.setdefault(constructor_name(loss.constructor).removesuffix("Loss"), each)
    question = nearest_choice(base.lower().removesuffix("loss"), LOSSES, of_classes | _OTHER_NAMES)
    return question and "+".join([question.rstrip("?"), *rest]) + "?"


class LossNames(Collection[str]):
    """A live view of the names in `LOSSES` that satisfy a predicate, including plug-ins'."""

    def __init__(self, holds: Callable[[Loss], bool]) -> None:
        self._holds = holds

    def __iter__(self) -> Iterator[str]:
        return (name for name, kind in LOSSES.items() if self._holds(kind))

    def __contains__(self, name: object) -> bool:
        return name in LOSSES and self._holds(LOSSES[str(name)])

    def __len__(self) -> int:
        return sum(1 for _ in self)


PAIR_LOSSES = LossNames(lambda loss: not loss.has_proxies)
PROXY_LOSSES = LossNames(lambda loss: loss.has_proxies)
PADS, PAIRS = "pads", "multisimilarity"
HEADS, SHARED, GROUPS, INTRA, DANCE = FEATURES
S2SD = "s2sd"
FORM = "PAIR_LOSS[+MINER[+rho]][+xbm][+s2sd][+heads][+shared or +groups][+intra][+dance]"


class LossName(str):
    """A loss's name with its parts.

    Attributes:
        base: the loss.
        miner: one of `MINERS`; None: all tuples.
        switches: whether drawn triplets are rho-regularised.
        memory: whether it has a cross-batch memory.
        distilled: whether it learns from larger embeddings.
        features: more features beside the discriminative one, in the order of `FEATURES`.
        rest: words that no loss has there.
    """

    def __init__(self, name: str) -> None:
        self.base, *rest = name.split("+")
        self.miner = rest[0] if rest and rest[0] in MINERS else None
        rest = rest[1:] if self.miner else rest

        def takes(word: str) -> bool:
            """Remove the next word if it is this one."""
            return rest[:1] == [word] and bool(rest.pop(0))

        self.switches = bool(self.miner) and takes("rho")
        self.memory, self.distilled = takes("xbm"), takes(S2SD)
        self.features = tuple(word for word in FEATURES if takes(word))
        self.rest = tuple(rest)

    @property
    def part(self) -> Loss:
        """The registered loss."""
        return LOSSES[self.base]

    @property
    def may_take_turns(self) -> bool:
        """True if a feature is shared by classes: its task may alternate."""
        return SHARED in self.features or GROUPS in self.features


def parse_loss(name: str) -> LossName:
    """Return the parts of a loss's name, even of an unknown loss.

    Raises:
        InvalidInput: it has another form, parts that only pair losses allow, or mutually exclusive ones.
    """
    loss = name if isinstance(name, LossName) else LossName(name)
    if {SHARED, GROUPS} <= {*loss.features}:
        fix = "Leave one out: groups are another way to find what classes share."
        raise invalid("--loss", received=name, expected=f"either {SHARED} or {GROUPS}", fix=fix)
    if HEADS in loss.features and (len(loss.features) > 1 or loss.miner == PADS):
        expected = f"{HEADS} as the only features, without the miner {PADS}"
        raise invalid("--loss", received=name, expected=expected, fix="All heads have the one task of the loss.")
    if loss.distilled and (loss.features or loss.miner == PADS):
        expected = f"{S2SD} without other features and without the miner {PADS}"
        raise invalid("--loss", received=name, expected=expected, fix="It adds embeddings in training alone.")
    if loss.switches and loss.miner == PAIRS:
        raise invalid("--loss", received=name, expected="rho after a miner of triplets", fix="Leave out `+rho`.")
    over_proxies = loss.base in PROXY_LOSSES and not (loss.miner or loss.memory)
    if loss.rest or (name != loss.base and loss.base not in PAIR_LOSSES and not over_proxies):
        words = ", ".join(FEATURES)
        raise invalid(
            "--loss",
            received=name,
            expected=f"a loss, or {FORM} with a pair loss ({', '.join(PAIR_LOSSES)}) and a miner ({', '.join(MINERS)})",
            fix=(suggested_loss(name) if loss.base not in LOSSES else None)
            or f"Proxy losses take {S2SD} or the features alone ({words}), which stand in this order.",
        )
    return loss


def uses_gsp(pooling: str) -> bool:
    """Return whether a pooling is generalized sum pooling, alone or combined."""
    known = POOLINGS.get(pooling)
    return known is not None and known.is_gsp


def parse_method(name: str) -> tuple[str, str, str]:
    """Split a method's report name into (loss, method, pooling).

    Raises:
        InvalidInput: it is not `LOSS[+MINER[+rho]][+xbm][+s2sd][+FEATURES][+ccp]+POOLING`; names are not checked.
    """
    rest = [*LossName(name).rest]
    loss = name.removesuffix("+".join(["", *rest]))
    method, rest = (rest[0], rest[1:]) if rest and rest[0] in choices_of_method() else (PLAIN, rest)
    if not rest or rest[0] in FEATURES:
        form = "LOSS[+MINER[+rho]][+xbm][+s2sd][+heads][+shared or +groups][+intra][+dance][+ccp]+POOLING"
        raise invalid("method", received=name, expected=f"{form}, such as c2+ccp+gap")
    return loss, method, "+".join(rest)
