"""Kinds of parts, with what an experiment has to know of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from common.commands.plugins import Provider
from common.errors import InvalidInput
from experiments.parts.setting import Settings
from experiments.parts.signatures import REQUIRED, Constructor, constructor_name, constructor_of, signature_of

if TYPE_CHECKING:
    from tensorflow import keras

    from common.data import Dataset


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """Part that a flag names, such as a loss, sampler or network.

    Args:
        name: the flag's value.
        constructor: of it, or where to find one; see `signatures`.
        settings: of the constructor's arguments; see `settings_of`.
        fixed: arguments that this name stands for.
        provider: the plug-in that has registered it; None: this library.
    """

    flag: ClassVar[str]
    given: ClassVar[tuple[str, ...]] = ()  # arguments from the experiment; the constructor's others are settings
    always: ClassVar[tuple[str, ...]] = ()  # those of `given` that every constructor takes, by **kwargs perhaps
    name: str
    constructor: Constructor
    settings: type[Settings]
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    provider: Provider | None = None

    @property
    def flags(self) -> dict[str, str]:
        """The settings' names in configurations, by flag: `ms.positive_scale`."""
        prefix = self.name.rpartition("+")[2]
        fields = [field for field in dataclasses.fields(self.settings) if field.metadata]
        return {f"{prefix}.{field.metadata['argument']}": field.name for field in fields}

    def accepts(self, argument: str) -> bool:
        """Return whether the constructor names an argument."""
        return argument in signature_of(self.constructor).parameters

    def __call__(self, settings: Settings | None, **given: Any) -> Any:
        """Build it from its settings; None: from its defaults.

        Arguments of `given` that the constructor does not take are left out. Its errors name flags.
        """
        settings = self.settings() if settings is None else settings
        takes = {*signature_of(self.constructor).parameters, *self.always} - self.fixed.keys()
        offered = {name: value for name, value in given.items() if name in takes}
        try:
            return constructor_of(self.constructor)(**offered, **self.fixed, **settings.arguments())
        except InvalidInput as error:
            flag_of = {field.metadata["argument"] or field.name: field.name for field in dataclasses.fields(settings)}
            name = next((each for each in flag_of if str(error).startswith(f"Invalid {each}:")), None)
            if name is None:
                raise
            raise InvalidInput(str(error).replace(name, f"--{flag_of[name]}", 1)) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss(Part):
    """A metric loss.

    Args:
        on_sphere: whether it needs unit embeddings.
        of_triplets: whether drawn triplets suit it, so that features of a sum have it as their task, too.
    """

    flag: ClassVar = "loss"
    given: ClassVar = ("num_classes", "embedding_dim", "normalization", "anchors")
    always: ClassVar = ("normalization",)
    on_sphere: bool = False
    of_triplets: bool = False

    @property
    def has_proxies(self) -> bool:
        """Whether it compares a batch with its own proxies; otherwise it takes a memory, drawn triplets and CCP."""
        parameters = signature_of(self.constructor).parameters
        required = {each.name for each in parameters.values() if each.default is REQUIRED}
        return {"num_classes", "embedding_dim"} <= required

    @property
    def sees_one_side(self) -> bool:
        """Whether it sees a pair from one side only; under CCP, the sample's or the proxy's."""
        return self.accepts("anchors")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Around(Part):
    """A method around a loss, see `common.training.method.Method`.

    Its constructor may take `miner` (builds the loss's miner; None without one) and `features` (the loss's, by name).

    Args:
        has: whether a run has it: a function of the words of its loss's name, its pooling and `--method`, and of the
            loss.
        layer: the order in which methods wrap the loss, the innermost first.
        selected: whether `--method` names it.
    """

    flag: ClassVar = "method"
    given: ClassVar = ("miner", "features")
    has: Callable[[Collection[str], Loss | None], bool]
    layer: int = 9
    selected: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pooling(Part):
    """A pooling: a layer from feature maps `[batch, height, width, channels]` to `[batch, channels]`.

    Args:
        project_first: whether local features are projected to the embedding's size before it, not after it.
        vectors: vectors that it concatenates; the projection gives the channels of each.
        embedding_dim: the embedding's size that it is for, if not the recipe's.
        combined_with: of generalized sum pooling, the other aggregation that it is combined with.
        counted_in_batches: arguments that are images for the layer and update steps for flags.
        of_class_token: whether it reads a transformer's class token instead of patches.
    """

    flag: ClassVar = "pooling"
    given: ClassVar = ("data_format",)
    project_first: bool = False
    vectors: int = 1
    embedding_dim: int | None = None
    combined_with: Literal["max", "generalized_mean"] | None = None
    counted_in_batches: tuple[str, ...] = ()
    of_class_token: bool = False

    @property
    def is_gsp(self) -> bool:
        """Whether it is generalized sum pooling, alone or combined."""
        return constructor_name(self.constructor) == "GeneralizedSumPooling"

    def layer(self, settings: Settings | None, batch_size: int) -> keras.layers.Layer:
        """Build the layer for batches of a size."""
        settings = self.settings() if settings is None else settings
        flags = {field.metadata["argument"]: field.name for field in dataclasses.fields(settings)}
        in_images = {flags[each]: batch_size * getattr(settings, flags[each]) for each in self.counted_in_batches}
        return self(dataclasses.replace(settings, **in_images))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Miner(Part):
    """A miner, named by a word of a loss's name.

    It is the name of one of `common.losses.MinedLoss`, or a layer as described there.
    """

    flag: ClassVar = "miner"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampler(Part):
    """A sampler of batches: `common.data.batches.TrainingBatches`, with `class_places`.

    Args:
        by_embeddings: whether it chooses by embeddings as of the last validation: its method `remember` gets those of
            all training images, `[examples, dim]`, in the order of the labels.
    """

    flag: ClassVar = "sampler"
    given: ClassVar = (
        *("labels", "superclasses", "batch_size", "classes_per_batch", "samples_per_class"),
        *("superclasses_per_batch", "seed"),
    )
    by_embeddings: bool = False

    @property
    def of_classes(self) -> bool:
        """True if a batch has `--classes_per_batch` different classes."""
        return self.accepts("classes_per_batch")

    @property
    def of_superclasses(self) -> bool:
        """True if it needs data with superclasses."""
        return self.accepts("superclasses")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer(Part):
    """An optimiser of Keras."""

    flag: ClassVar = "optimizer"
    given: ClassVar = ("learning_rate", "beta_2", "weight_decay")

    @property
    def decays(self) -> bool:
        """True if it decays weights itself; otherwise L2 is added to their gradients."""
        return self.accepts("weight_decay")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmentation(Part):
    """An augmentation of training images: `common.data.ImageTransform`.

    Args:
        of_files: whether it crops image files to `size` pixels; the others are for images in memory.
    """

    flag: ClassVar = "crop"
    given: ClassVar = ("size",)
    of_files: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Backbone(Part):
    """A network of a plug-in, from images in 0..255 to feature maps."""

    flag: ClassVar = "backbone"
    given: ClassVar = ("input_channels", "image_size", "frozen_batch_norm", "weights")


class Size(NamedTuple):
    """The size of published data."""

    classes: int  # of training
    training: int  # images
    testing: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSet(Part):
    """A data set: a function of `data_dir`, `cache_dir` and `seed`; of custom data, of `data_dir` and its settings.

    Args:
        kind: of its images. Networks of photographs begin with weights of ImageNet.
        follows: the data set whose recipe it takes, by default itself.
        large: thousands of classes with few images each.
        recall_at: k of R@k in tables.
        default_recipe: value of `--recipe` if it is missing.
        needs_files: whether it reads files of `--data_dir`.
        custom: whether it is the user's own: classes and images are unknown.
        takes: those of `OF_CUSTOM_DATA` that it takes.
        source: the published files that it is made of, a key of `common.downloads.SOURCES`.
        size: as published, or of the drawings here.
        label_by: what distinguishes its runs in a table.
        with_targets: whether an image shows an object on clutter, at a known place.
    """

    flag: ClassVar = "dataset"
    kind: Literal["photographs", "thumbnails", "drawings", "characters", "collages", "tokens"] = "drawings"
    follows: str = ""
    large: bool = False
    recall_at: tuple[int, ...] = (1, 2, 4, 8)
    default_recipe: str = "thesis"
    needs_files: bool = True
    custom: bool = False
    takes: tuple[str, ...] = ()
    source: str | None = None
    size: Size | None = None
    label_by: Literal["method", "pooling", "start"] = "method"
    with_targets: bool = False

    @property
    def photographs(self) -> bool:
        """Whether the images are photographs of objects, larger than thumbnails."""
        return self.kind == "photographs"

    @property
    def distilled(self) -> bool:
        """True if its collages have the relevant image alone."""
        return self.fixed.get("nuisance") is False

    def load(self, data_dir: str | None, **given: Any) -> Dataset:
        """Load it."""
        return constructor_of(self.constructor)(data_dir, **self.fixed, **given)
