"""What plug-ins register: losses, poolings, backbones and data sets of their own; see `common.commands.plugins`."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import flags

from common import data, losses
from common.backbones.by_name import ProvidedNetwork
from common.commands import plugins
from common.commands.plugins import Provider
from common.errors import InvalidInput, check_choice, invalid
from experiments.settings import build
from experiments.settings.datasets import DATASETS
from experiments.settings.method_names import FEATURES, MINERS, S2SD
from experiments.settings.methods.derived import constructed, derived, is_of_kind, loss_settings, parameters_of
from experiments.settings.parts import all_settings
from experiments.settings.provided import OWN_SETTINGS, PROVIDERS
from experiments.settings.setting import LossSettings, Settings

if TYPE_CHECKING:
    from tensorflow import keras

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

_PARTS_OF_NAMES = (*MINERS, "rho", "xbm", S2SD, *FEATURES, "ccp", "plain")
_OF_NETWORK = ("input_channels", "image_size", "frozen_batch_norm", "weights")


def check_stored_plugins(stated: object, folder: str) -> None:
    """Refuse a run whose plug-ins, stated in its `config.json`, are missing or changed."""
    for kind, provider in stated.items() if isinstance(stated, dict) else ():
        name = provider.get("plugin")
        known = next((each for each in PROVIDERS.values() if each.plugin == name), None)
        if known is None:
            raise invalid(
                f"plug-ins for {folder}",
                received=", ".join(sorted({each.plugin for each in PROVIDERS.values()})) or "none",
                expected=f"{name}, which gives this run its {kind}",
                fix=f"Add --plugin={name}, if that module can be imported, or --plugin=FOLDER/{name}.py.",
            )
        if known.as_dict() != provider:
            raise InvalidInput(
                f"{folder} was run with another version of the plug-in {known.plugin}: its source was "
                f"{str(provider.get('source'))[:19]}, that of --plugin is {known.source[:19]}. Give --plugin the "
                "former source, or run it again."
            )


def define_plugin_flag() -> None:
    """Define `--plugin` and import its modules; exit if that fails."""
    plugins.define_plugin_flag(registry_of)


def registry_of(provider: Provider) -> Registry:
    """Return the registry of a plug-in, which is named once."""
    if any(each.plugin == provider.plugin for each in PROVIDERS.values()):
        raise invalid("--plugin", received=f"{provider.plugin} more than once", expected="every plug-in once")
    return Registry(provider)


class Registry:
    """Access to the tables of `--loss`, `--pooling`, `--backbone` and `--dataset` for `register`.

    Each method takes a constructor, whose annotated parameters become flags (see `methods.derived`). A loss can be a
    class derived from `LossSettings` instead, with its own `build`. Flags begin with the registered name.

    Raises:
        InvalidInput: in each method: a name that is taken or invalid, settings of types other than int,
            float, str and bool.
    """

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def loss(self, name: str, loss: type[LossSettings] | Callable[..., losses.MetricLoss]) -> None:
        """Add a loss for `--loss`."""
        self._check_name("loss", name, build.LOSSES)
        if isinstance(loss, type) and issubclass(loss, LossSettings):
            kind = loss
        else:
            kind = loss_settings(name, typing.cast("Callable[..., losses.MetricLoss]", loss))
        self._add("loss", name, kind)
        build.LOSSES[name] = kind

    def pooling(self, name: str, pooling: Callable[..., keras.layers.Layer], *, project_first: bool = False) -> None:
        """Add a pooling for `--pooling`.

        Args:
            pooling: a layer from `[batch, height, width, channels]` to `[batch, channels]`.
            project_first: whether local features are projected to the embedding's size before it, not after it.
        """
        self._check_name("pooling", name, build.POOLINGS)
        kind = derived(name, pooling, Settings, ("name", "dtype", "trainable"), {})
        self._add("pooling", name, kind)
        build.POOLINGS[name] = lambda config: constructed(config.part(kind), name, pooling, {})
        if project_first:
            build.PROJECT_FIRST.append(name)

    def backbone(self, name: str, backbone: Callable[..., keras.Model]) -> None:
        """Add a network for `--backbone`.

        Args:
            backbone: a function of `input_channels` that returns a network from images in 0..255 to feature maps. It
                may also take `image_size`, `frozen_batch_norm` and `weights`. Without the latter two, batch
                normalisation is frozen and an .npz file is read into the returned network.
        """
        self._check_name("backbone", name, build.BACKBONES)
        kind = derived(name, backbone, Settings, _OF_NETWORK, {})
        self._add("backbone", name, kind)
        build.BACKBONES[name] = ProvidedNetwork(
            lambda own, **given: constructed(own or kind(), name, backbone, given), parameters_of(backbone)
        )

    def dataset(
        self, name: str, load: Callable[..., data.Dataset], *, recipe_of: str, needs_files: bool = True
    ) -> None:
        """Add a data set for `--dataset`.

        Args:
            load: a function of `data_dir`, `cache_dir` and `seed` that returns a `common.data.Dataset`.
            recipe_of: a data set of this library with the default hyper-parameters: `folder` for photographs,
                `glyphs` for small images in memory, ...
            needs_files: whether it reads files of `--data_dir`.
        """
        self._check_name("dataset", name, DATASETS)
        check_choice(
            f"recipe_of of {name}", recipe_of, [each for each, known in DATASETS.items() if known.follows == each]
        )
        self._add("dataset", name, None)
        DATASETS[name] = DATASETS[recipe_of].of_plugin(load, needs_files)

    def _check_name(self, kind: str, name: str, table: typing.Container[str]) -> None:
        if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]*", name) or name in _PARTS_OF_NAMES:
            expected = f"lower-case letters, digits and _, and none of {', '.join(_PARTS_OF_NAMES)}"
            raise invalid(f"name of a {kind}", received=name, expected=expected)
        if name in table:
            owner = PROVIDERS.get((kind, name))
            there = f"{owner} has registered it" if owner else "this library has one of that name"
            raise invalid(f"name of a {kind}", received=name, expected=f"a new name: {there}")

    def _add(self, kind: str, name: str, settings: type[Settings] | None) -> None:
        PROVIDERS[kind, name] = self.provider
        if settings is None:
            return
        _check_settings(name, settings)
        if kind != "loss":
            OWN_SETTINGS[kind, name] = settings


def _check_settings(name: str, settings: type[Settings]) -> None:
    """Raise `InvalidInput` unless each field can become a new flag."""
    taken = {each.name for each in all_settings()}
    hints = typing.get_type_hints(settings)
    declared = [field for field in dataclasses.fields(settings) if _is_own(settings, field.name)]
    for field in declared:
        parts = typing.get_args(hints[field.name])
        is_union = typing.get_origin(hints[field.name]) in (typing.Union, types.UnionType)
        kinds = [part for part in parts if part is not type(None)] if is_union else [hints[field.name]]
        optional = type(None) in parts
        if (
            len(kinds) != 1
            or kinds[0] not in (int, float, str, bool)
            or not is_of_kind(field.default, kinds[0], optional)
        ):
            raise invalid(
                f"setting {field.name} of {name}",
                received=f"{field.type} = {field.default!r}",
                expected="int, float, str or bool with a default of that type",
            )
        if not field.metadata:
            raise invalid(f"setting {field.name} of {name}", received="a plain field", expected="one made by `setting`")
        if not field.name.startswith(f"{name}_") or field.name in taken:
            raise invalid(f"setting of {name}", received=field.name, expected=f"a new name that begins with {name}_")
    try:
        if all(field.default is not dataclasses.MISSING for field in dataclasses.fields(settings)):
            settings()
    except InvalidInput as error:
        raise InvalidInput(f"The defaults of {name} are refused: {error}") from error


def _is_own(settings: type[Settings], field: str) -> bool:
    """Return whether a plug-in, not this library, declares a field."""
    owner = next(base for base in settings.__mro__ if field in base.__dict__.get("__annotations__", {}))
    return not owner.__module__.startswith("experiments.settings.")
