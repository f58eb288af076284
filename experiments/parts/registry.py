"""The registry of parts: what `--loss`, `--method`, `--pooling`, `--sampler`, `--dataset` and others may name.

This library's parts (`library.register`) and those of plug-ins are registered in the same way.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from common.backbones.by_name import BACKBONES, ProvidedNetwork
from common.commands.plugins import Provider
from common.errors import InvalidInput, check_choice, invalid
from common.files import Maybe, difference
from common.parameters import FINITE
from common.training.trackers import TRACKERS, TrackedRun
from experiments.parts import library
from experiments.parts.kinds import (
    Around,
    Augmentation,
    Backbone,
    DataSet,
    Loss,
    Miner,
    Optimizer,
    Part,
    Pooling,
    Sampler,
)
from experiments.parts.setting import Settings, setting
from experiments.parts.signatures import REQUIRED, Constructor, Parameter, signature_of

_KINDS = (int, float, str, bool)  # of settings
_OF_LAYERS = ("name", "dtype", "trainable")  # arguments that nobody sets


def settings_of(
    part: type[Part],
    name: str,
    constructor: Constructor,
    fixed: Mapping[str, Any],
    names: Mapping[str, str] | None = None,
    omits: Collection[str] = (),
    stored_as: Mapping[str, str] | None = None,
) -> type[Settings]:
    """Make a part's settings from the constructor's arguments that a user may choose.

    A parameter `scale: Positive = 8.0` of a loss `logistic` becomes the flag `logistic_scale`, with its `Args:` entry
    as help.

    Args:
        names: names of settings in configurations and flags that are not the part's and the argument's. If given, all
            other settings, and those of `omits`, are stored only if they are not the default.
        stored_as: names in configurations that are not the flags'.
    """
    signature = signature_of(constructor)
    left_out = {*part.given, *_OF_LAYERS, *fixed}
    fields = []
    for each in signature.parameters.values():
        named = names is not None and each.name in names
        if each.name in left_out or (each.hint.mixed and not named and each.default is not REQUIRED):
            continue
        flag = (names or {}).get(each.name, f"{name.rpartition('+')[2]}_{each.name}")
        is_stored = names is None or (named and each.name not in omits)
        fields.append((flag, *_field(name, each, is_stored, (stored_as or {}).get(flag))))
    if not fields:
        return Settings
    shown = f"+{name}" if part is Around and names is not None else name  # a word of names
    namespace = {"__doc__": f"Settings of `{name}`.", "title": f"{signature.title or name} ({shown})"}
    made = f"SettingsOf{name.title().replace('_', '').replace('+', '')}"
    bases, options = (Settings,), {"frozen": True, "kw_only": True}
    return dataclasses.make_dataclass(made, fields, bases=bases, namespace=namespace, **options)


def _field(name: str, parameter: Parameter, is_stored: bool, stored_as: str | None) -> tuple[Any, Any]:
    """Return the type and the field of a parameter's setting."""
    hint, default = parameter.hint, parameter.default
    kind: Any = hint.kind
    given = dataclasses.MISSING if default is REQUIRED else default
    if kind not in _KINDS or not _is_of_kind(given, kind, hint.optional):
        stated = parameter.annotation if default is REQUIRED else f"{parameter.annotation} = {default!r}"
        raise invalid(
            f"setting {parameter.name} of {name}",
            received="no type" if parameter.annotation == "no type" else stated,
            expected="int, float, str or bool with a default of that type",
            fix="Annotate it.",
        )
    given = float(given) if kind is float and isinstance(given, int) else given
    within = hint.within or (FINITE if kind is float else None)
    shown = "" if "default" in parameter.help_text or given is dataclasses.MISSING else f" (default: {given})"
    field = setting(
        f"{name}: {parameter.help_text}{shown}",
        given,
        within=within if kind in (int, float) else None,
        choices=hint.choices,
        stored_as=stored_as,
        omit_default=not is_stored,
        argument=parameter.name,
    )
    return kind | None if hint.optional else kind, field


def _is_of_kind(default: object, kind: type, optional: bool) -> bool:
    return default is dataclasses.MISSING or not difference(default, Maybe(kind) if optional else kind)


LOSSES: dict[str, Loss] = {}
POOLINGS: dict[str, Pooling] = {}
_OWN_BACKBONES: dict[str, Backbone] = {}  # of plug-ins; `BACKBONES` has all
DATASETS: dict[str, DataSet] = {}
METHODS: dict[str, Around] = {}
MINERS: dict[str, Miner] = {}
SAMPLERS: dict[str, Sampler] = {}
OPTIMIZERS: dict[str, Optimizer] = {}
CROPS: dict[str, Augmentation] = {}
PLAIN = "plain"  # no method that `--method` names
TABLES: dict[str, dict[str, Any]] = {
    "loss": LOSSES,
    "miner": MINERS,
    "method": METHODS,
    "pooling": POOLINGS,
    "backbone": _OWN_BACKBONES,
    "sampler": SAMPLERS,
    "optimizer": OPTIMIZERS,
    "crop": CROPS,
    "dataset": DATASETS,
}


def providers() -> set[Provider]:
    """Return the plug-ins that have registered anything."""
    return {part.provider for table in TABLES.values() for part in table.values() if part.provider}


def choices_of_method() -> tuple[str, ...]:
    """Return the values of `--method`."""
    return (PLAIN, *(name for name, part in METHODS.items() if part.selected))


def methods_of(loss: str, method: str, pooling: str) -> list[Around]:
    """Return the methods around a loss, by its name, `--method` and pooling."""
    base, *words = loss.split("+")
    found = {*words, method, *(("gsp",) if pooling in POOLINGS and POOLINGS[pooling].is_gsp else ())}
    return [part for part in METHODS.values() if part.has(found, LOSSES.get(base))]


def part_of(kind: str, values: Mapping[str, Any]) -> Part | None:
    """Return the part that the flags' values name, or None.

    A loss's name begins with its base, perhaps followed by a miner.
    """
    base, *words = (values.get("loss") or "").split("+")
    return TABLES[kind].get({"loss": base, "miner": "".join(words[:1])}.get(kind, values.get(kind) or ""))


def part_flags() -> dict[str, tuple[Part, str]]:
    """Return part and stored name of each flag such as `ms.positive_scale`."""
    parts = [part for table in TABLES.values() for part in table.values()]
    return {flag: (part, name) for part in reversed(parts) for flag, name in part.flags.items()}


def setting_of(part: Part, name: str) -> Mapping[str, Any]:
    """Return help, range and choices of a part's setting."""
    return next(field.metadata for field in dataclasses.fields(part.settings) if field.name == name)


class Registry:
    """What a plug-in's `register` receives: one method for each kind of part.

    Each takes a name and a constructor: a class, a function, or where to find one (`"my_package.losses:MyLoss"`, which
    is imported when it is needed). Its annotated parameters become flags; types give ranges (`common.parameters`), the
    docstring's `Args:` the help.

    Raises:
        InvalidInput: in each method: a name that is taken or invalid, settings of types other than int, float, str and
            bool.
    """

    # `taken`: names of other settings
    def __init__(self, provider: Provider | None = None, taken: Collection[str] = ()) -> None:
        self._provider, self._taken = provider, taken

    def loss(self, name: str, constructor: Constructor, **how: Any) -> None:
        """Add a loss for `--loss`; `how` as of `Loss` and `settings_of`, likewise below."""
        self._add(Loss, name, constructor, **how)

    def method(
        self,
        name: str,
        constructor: Constructor,
        *,
        has: Callable[[Collection[str], Loss | None], bool] | None = None,
        **how: Any,
    ) -> None:
        """Add a method for `--method`: a `common.training.method.Method`.

        Without `has`, see `Around`, `--method` names it.
        """
        has_it = has or (lambda words, loss: name in words)
        self._add(Around, name, constructor, has=has_it, selected=has is None, **how)

    def pooling(self, name: str, constructor: Constructor, **how: Any) -> None:
        """Add a pooling for `--pooling`."""
        self._add(Pooling, name, constructor, **how)

    def miner(self, name: str, constructor: Constructor, **how: Any) -> None:
        """Add a miner for names such as `margin+NAME`: of a layer, see `common.losses.MinedLoss`."""
        self._add(Miner, name, constructor, **how)

    def sampler(self, name: str, constructor: Constructor, **how: Any) -> None:
        """Add a sampler for `--sampler`, which takes those of `Sampler.given` that it names."""
        self._add(Sampler, name, constructor, **how)

    def optimizer(self, name: str, constructor: Constructor, **how: Any) -> None:
        """Add an optimiser for `--optimizer`, which takes those of `Optimizer.given` that it names.

        Its learning rate is a number that a schedule may assign.
        """
        self._add(Optimizer, name, constructor, **how)

    def augmentation(self, name: str, constructor: Constructor, **how: Any) -> None:
        """Add an augmentation for `--crop`, which may take `size`."""
        self._add(Augmentation, name, constructor, **how)

    def tracker(self, name: str, tracker: type[TrackedRun]) -> None:
        """Add a tracker for `--tracker`, see `TRACKERS`; no result depends on it."""
        if not isinstance(tracker, type) or not issubclass(tracker, TrackedRun):
            raise invalid(f"tracker {name}", received=tracker, expected="a subclass of TrackedRun")
        self._check_name("tracker", name)
        TRACKERS[name] = tracker

    def backbone(self, name: str, constructor: Constructor) -> None:
        """Add a network for `--backbone`.

        Args:
            constructor: a function of `input_channels` that returns a network from images in 0..255 to feature maps. It
                may also take `image_size`, `frozen_batch_norm` and `weights`. Without the latter two, batch
                normalisation is frozen and an .npz file is read into the returned network.
        """
        if name in BACKBONES and name not in _OWN_BACKBONES:
            raise invalid("name of a backbone", received=name, expected="a new name: this library has one of that name")
        self._add(Backbone, name, constructor)
        BACKBONES[name] = ProvidedNetwork(_OWN_BACKBONES[name], signature_of(constructor).parameters.keys())

    def dataset(
        self,
        name: str,
        load: Constructor,
        *,
        recipe_of: str | None = None,
        fixed: Mapping[str, Any] | None = None,
        **traits: Any,
    ) -> None:
        """Add a data set for `--dataset`; `traits` as of `DataSet`.

        Args:
            recipe_of: a data set of this library whose hyper-parameters and traits it takes: `folder` for photographs,
                `glyphs` for small images in memory, ...
        """
        self._check_name("dataset", name)
        if self._provider or recipe_of:
            choices = [each for each, known in DATASETS.items() if known.follows == each]
            like = DATASETS[check_choice(f"recipe_of of {name}", recipe_of or "", choices)]
            shared = ("kind", "follows", "large", "recall_at", "default_recipe")
            traits = {each: getattr(like, each) for each in shared} | traits
        own: dict[str, Any] = {"fixed": fixed or {}, "provider": self._of_part(name), "follows": name, **traits}
        DATASETS[name] = DataSet(name=name, constructor=load, settings=Settings, **own)

    def _add(
        self,
        part: type[Part],
        name: str,
        constructor: Constructor,
        *,
        fixed: Mapping[str, Any] | None = None,
        names: Mapping[str, str] | None = None,
        omits: Collection[str] = (),
        stored_as: Mapping[str, str] | None = None,
        **traits: Any,
    ) -> None:
        self._check_name(part.flag, name)
        settings = settings_of(part, name, constructor, fixed or {}, names, omits, stored_as)
        self._check_settings(name, settings)
        own: dict[str, Any] = {"name": name, "constructor": constructor, "settings": settings, "fixed": fixed or {}}
        TABLES[part.flag][name] = part(**own, provider=self._of_part(name), **traits)

    def _of_part(self, name: str) -> Provider | None:
        return self._provider and self._provider.of_part(name)

    def _check_name(self, kind: str, name: str) -> None:
        is_word = isinstance(name, str) and re.fullmatch("[a-z][a-z0-9_]*", name)
        beside = {"miner": (*LOSSES, *POOLINGS, *METHODS), **dict.fromkeys(("loss", "method", "pooling"), MINERS)}
        words = (*beside.get(kind, ()), *library.WORDS)
        if self._provider and (not is_word or name in words):
            expected = f"lower-case letters, digits and _, and none of {', '.join(words)}"
            raise invalid(f"name of a {kind}", received=name, expected=expected)
        known = (TRACKERS if kind == "tracker" else TABLES[kind]).get(name)
        if known is not None:
            provider = getattr(known, "provider", None)
            there = f"{provider} has registered it" if provider else "there is one of that name"
            raise invalid(f"name of a {kind}", received=name, expected=f"a new name: {there}")

    def _check_settings(self, name: str, settings: type[Settings]) -> None:
        """Raise `InvalidInput` unless each field can become a new flag."""
        if clash := next((each for each in settings.names() if each in self._taken), None):
            raise invalid(f"setting of {name}", received=clash, expected="a new name")
        try:
            if all(field.default is not dataclasses.MISSING for field in dataclasses.fields(settings)):
                settings()
        except InvalidInput as error:
            raise InvalidInput(f"The defaults of {name} are refused: {error}") from error


library.register(Registry())
