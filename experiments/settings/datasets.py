"""The data sets by name, with their traits: known without loading data, and without TensorFlow."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from common import data
from common.errors import invalid

# Settings of custom data alone, and why other data sets refuse them.
OF_CUSTOM_DATA: Mapping[str, str] = {
    "train_fraction": "has a split of its own",
    "label_column": "is no table",
    "exclude": "is no folder of photos",
    "min_images": "is used as a whole",
    "skip_unreadable": "is used as a whole",
}


class Size(NamedTuple):
    """The size of published data."""

    classes: int  # of training
    training: int  # images
    testing: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetTraits:
    """A data set's loader, and what others need to know about the data.

    Attributes:
        load: a function of `data_dir`, `cache_dir` and `seed`; of custom data, of `data_dir` and its settings.
        follows: the data set whose recipe it takes: itself, or that of a plug-in's `recipe_of`.
        kind: of its images. Networks of photographs begin with weights of ImageNet.
        large: thousands of classes with few images each.
        recall_at: k of R@k in tables.
        default_recipe: value of `--recipe` if it is missing.
        needs_files: whether it reads files of `--data_dir`.
        custom: whether it is the user's own: classes and images are unknown.
        settings: those of `OF_CUSTOM_DATA` that it takes.
        source: the published files that it is made of, a key of `common.downloads.SOURCES`.
        size: as published, or of the drawings here.
        label_by: what distinguishes its runs in a table.
        with_targets: whether an image shows an object on clutter, at a known place.
    """

    load: Callable[..., data.Dataset]
    follows: str
    kind: Literal["photographs", "thumbnails", "drawings", "characters", "collages", "tokens"] = "drawings"
    large: bool = False
    recall_at: tuple[int, ...] = (1, 2, 4, 8)
    default_recipe: str = "thesis"
    needs_files: bool = True
    custom: bool = False
    settings: tuple[str, ...] = ()
    source: str | None = None
    size: Size | None = None
    label_by: Literal["method", "pooling", "start"] = "method"
    with_targets: bool = False

    @property
    def photographs(self) -> bool:
        """Whether the images are photographs of objects, larger than thumbnails."""
        return self.kind == "photographs"

    def of_plugin(self, load: Callable[..., data.Dataset], needs_files: bool) -> DatasetTraits:
        """Return the traits of a plug-in's data set that takes this one's recipe."""
        own: dict[str, Any] = {"custom": False, "settings": (), "source": None, "size": None}
        own |= {"label_by": "method", "with_targets": False}
        return dataclasses.replace(self, load=load, needs_files=needs_files, **own)


DATASETS: dict[str, DatasetTraits] = {}
EMOJI_CLUTTER = {"emoji_clutter_64": 64, "emoji_clutter_48": 48, "emoji_clutter_32": 32}  # their sides in pixels


def traits_of(dataset: str) -> DatasetTraits:
    """Return a data set's traits, default ones if it is of a plug-in that is not loaded."""
    return DATASETS.get(dataset) or DatasetTraits(load=functools.partial(_refuse, dataset), follows=dataset)


def _refuse(dataset: str, *_: Any, **__: Any) -> data.Dataset:
    raise invalid("--dataset", received=dataset, expected="a data set here, or of a plug-in that is loaded")


def _add(name: str, loader: Callable[[], Callable[..., data.Dataset]], given: Mapping[str, Any], **traits: Any) -> None:
    """Add a data set; its loader is imported when it is called, with the arguments `given`."""

    def load(*arguments: Any, **options: Any) -> data.Dataset:
        return loader()(*arguments, **given, **options)

    DATASETS[name] = DatasetTraits(load=load, follows=name, **traits)


_ARE_EMBEDDED = {"needs_files": False}
_add("emoji", lambda: data.load_emoji, {}, kind="drawings", size=Size(598, 3_599, 3_578), **_ARE_EMBEDDED)
for _name, _side in EMOJI_CLUTTER.items():
    _add(_name, lambda: data.load_emoji_clutter, {"side": _side}, kind="drawings", with_targets=True)
_add("glyphs", lambda: data.load_glyphs, {}, kind="characters", **_ARE_EMBEDDED)
_add("glyph_scripts", lambda: data.load_glyph_scripts, {}, kind="characters", **_ARE_EMBEDDED)
_COLLAGES = {"kind": "collages", "label_by": "start", **_ARE_EMBEDDED}
_add("glyph_collage", lambda: data.load_glyph_collage, {}, with_targets=True, **_COLLAGES)
_add("glyph_collage_distilled", lambda: data.load_glyph_collage, {"nuisance": False}, **_COLLAGES)
_add("synthetic_tokens", lambda: data.load_synthetic_tokens, {}, kind="tokens", label_by="pooling", **_ARE_EMBEDDED)

_SMALL = {"kind": "photographs"}
_add("cars196", lambda: data.load_cars196, {}, source="cars196", size=Size(98, 8_054, 8_131), **_SMALL)
_add("cub200", lambda: data.load_cub200, {}, source="cub200", size=Size(100, 5_864, 5_924), **_SMALL)
_LARGE = {"kind": "photographs", "large": True}
_OF_SOP = {"recall_at": (1, 10, 100, 1000), "size": Size(11_318, 59_551, 60_502)}
_OF_INSHOP = {"recall_at": (1, 10, 20, 30), "size": Size(3_997, 25_882, 26_830)}
_add("sop", lambda: data.load_stanford_online_products, {}, source="sop", **_LARGE, **_OF_SOP)
_add("inshop", lambda: data.load_in_shop, {}, source="inshop", **_LARGE, **_OF_INSHOP)

_CIFAR_10, _CIFAR_100 = ({"kind": "thumbnails", "source": source} for source in ("cifar10", "cifar100"))
_add("cifar10", lambda: data.load_cifar10, {}, **_CIFAR_10)
_add("cifar10_seen", lambda: data.load_cifar10, {"validation_share": 0.1}, **_CIFAR_10)
_add("cifar10_unseen", lambda: data.load_cifar10, {"unseen_classes": True}, **_CIFAR_10)
_add("cifar100", lambda: data.load_cifar100, {}, **_CIFAR_100)
_add("cifar100_unseen", lambda: data.load_cifar100, {"unseen_classes": True}, **_CIFAR_100)
for _suffix, _division in (("", "thesis"), ("_published_code", "published_code")):
    for _distilled, _given in (("", {}), ("_distilled", {"nuisance": False})):
        _settings = {"division": _division, **_given}
        _add(f"cifar_collage{_suffix}{_distilled}", lambda: data.load_cifar_collage, _settings, **_CIFAR_100)
_add("cifar10_collage", lambda: data.load_cifar10_collage, {}, **_CIFAR_10)
_add("cifar10_collage_distilled", lambda: data.load_cifar10_collage, {"nuisance": False}, **_CIFAR_10)

_CUSTOM = {"kind": "photographs", "default_recipe": "own_photos", "custom": True}
_OF_ALL = ("min_images", "skip_unreadable")
_add("folder", lambda: data.load_image_folder, {}, settings=("train_fraction", "exclude", *_OF_ALL), **_CUSTOM)
_add("manifest", lambda: data.load_manifest, {}, settings=("label_column", *_OF_ALL), **_CUSTOM)
