"""Settings of every run, in the sections of `--help`; `methods` has the rest."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping
from typing import TypeVar

from common.backbones.network_names import ALL_BLOCKS, OUTPUT_STRIDE, PROMPTED, TRANSFORMERS
from common.data.image_formats import COPIES
from common.errors import invalid
from common.parameters import NOT_NEGATIVE, POSITIVE, SHARE, NumberRange
from common.training.method import Method
from common.training.methods import Prefixes, WeightInterpolation
from experiments.parts import kinds
from experiments.parts.registry import CROPS, METHODS, OPTIMIZERS, PLAIN, SAMPLERS, methods_of, part_of
from experiments.parts.setting import Settings, setting
from experiments.settings.method_names import PADS, LossName

AnyMethod = TypeVar("AnyMethod", bound=Method)

CONVENTIONAL_PROTOCOLS = ("conventional", "held_out")
REVISITING = "revisiting"  # the recipe of a benchmark whose tables print NMI
THESIS, OWN_PHOTOS, OWN_LOSS = "thesis", "own_photos", "ms"
RECIPES = (THESIS, "published_code", REVISITING, OWN_PHOTOS)
BUDGETS = ("smoke", "demo", "full")
RANDOM_START, IDENTITY_START = "random", "identity"
AVERAGE_POOLING = "gap"
SOFT_WHITENING, WHITENING = "soft_whitening", "whitening"
WHITENINGS = {SOFT_WHITENING: 0.75, WHITENING: 1.0}  # shares, see `within_class_whitening`
HEAD_STARTS = ("pca", *WHITENINGS)  # in closed form
COSINE = "cosine"
EVERYTHING = "everything"  # for `--trained_from`: no cut
FINAL = "final"  # all training classes, for a number of steps that is fixed: a model to deploy


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonSettings(Settings, title="What is compared"):
    """Methods, recipe and length of training."""

    dataset: str = setting("data set; those of `glyphs` and `synthetic_tokens` need no download")
    loss: LossName = setting(
        "metric loss; of pair losses also LOSS[+MINER[+rho]][+xbm][+s2sd][+FEATURES]: mined, with a memory, ..."
    )
    pooling: str = setting("pooling of the feature map")
    method: str = setting("`plain`, or `ccp`: alternating projections around a pair loss")
    recipe: str = setting("`thesis` (printed text, errata corrected), `published_code`, `revisiting` or `own_photos`")
    budget: str = setting("length of training: `full`, `demo` (minutes on a CPU) or `smoke` (seconds)")
    chapter: int = setting("whose settings: 3 (CCP and its baselines) or 5 (GSP and its baselines)")
    seed: int = setting(
        "seed of weights, batches and augmentation; fold and repeat are mixed in",
        0,
        within=NOT_NEGATIVE,
        omit_default=False,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProtocolSettings(Settings, title="Protocol"):
    """Division of the training classes, and selection within a run."""

    num_folds: int = setting(
        "class-disjoint folds of the training classes (default: the recipe's)",
        4,
        within=NumberRange(low=2, low_included=True),
        omit_default=False,
    )
    train_fraction: float | None = setting(
        "folder: share of the classes that train, the others test (default: 0.5)", None, within=NumberRange(0, 1)
    )
    by_family: bool | None = setting(
        "folder: classes of one family, FAMILY/CLASS, are on one side of the split and of each fold (default: no)", None
    )
    min_images: int | None = setting(
        "folder, manifest: fewest images of a training class; smaller classes are left out and named (default: 2)",
        None,
        within=NumberRange(low=2, low_included=True),
    )
    skip_unreadable: bool | None = setting(
        "folder, manifest: leave out images that cannot be read, and name them (default: no)", None
    )
    label_column: str | None = setting(
        "manifest: column of the labels, such as a level of a hierarchy (default: label)", None
    )
    exclude: str | None = setting(
        "folder: skip files and folders whose name, or path below --data_dir, matches, such as `thumb_*`; may be "
        "repeated (default: none)",
        None,
        repeats=True,
    )
    left_out_images: float | None = setting(
        "share of the images of each training class with four or more that nothing is learned from: those that "
        "--pads_images would hold back, whose price this shows (default: none)",
        None,
        within=NumberRange(0, 1),
    )
    fold_order: str = setting(
        "fold k validates on block k (`forward`) or on the last but k (`backward`) (default: the recipe's)",
        "forward",
        choices=("forward", "backward"),
        omit_default=False,
    )
    protocol: str | None = setting(
        "`conventional`, `held_out` beside it, or `final`; none: the fair protocol",
        None,
        choices=(*CONVENTIONAL_PROTOCOLS, FINAL),
    )
    held_out_fraction: float | None = setting(
        "held_out: share of the training classes kept back to stop on", None, within=NumberRange(0, 1)
    )
    selection_start: int | None = setting(
        "update steps whose validations are not selected from: until a memory or proxies are on (default: none)",
        None,
        within=NOT_NEGATIVE,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSettings(Settings, title="Images"):
    """Preprocessing of images."""

    image_size: int = setting("height and width of the network's input in pixels", within=POSITIVE)
    crop: str = setting(
        "augmentation of files: `thesis`, `published_code`, `reduced` (of constant scale) or `jittered` (`thesis` with "
        "other colours); else `shift` (2 pixels), `shift_4`, `shift_flip` (4, CIFAR) or `none`",
        choices=CROPS,
    )
    evaluation_antialias: bool = setting("files: low-pass filter of the evaluation's crop", True)
    copies: str = setting(
        "files: prepared copies of images, `exact`, or `compressed` to less space",
        COPIES[0],
        choices=COPIES,
    )
    input_mean: str = setting(
        "bn_inception: mean of its input, `caffe` (104, 117, 128; default) or `imagenet` (103.5, 116.3, 123.7)", "caffe"
    )
    views: int | None = setting(
        "seeded crops and flips of each training image, which are all that training sees of it (default: every draw is "
        "a new one; with cached features 4, or 1 with --crop=none)",
        None,
        within=POSITIVE,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkSettings(Settings, title="Network"):
    """The network, its embedding, and its trained layers."""

    backbone: str = setting(
        "network before the pooling: this project's in lower case (`mobilenet_v2`, weights as .npz), one of "
        "keras.applications (`MobileNetV2`, which downloads its own), or `kerashub:PRESET` (a preset's name or folder)"
    )
    weights: str = setting("initial backbone parameters: `imagenet`, `none`, `preset` (kerashub), or an .npz file")
    start_from: str | None = setting(
        "folder of a method's finished runs, such as runs/fair/emoji/c2+gap-0123456789: each run begins with the "
        "network that the run of its fold and repeat there has trained (default: as --weights say)",
        None,
    )
    output_stride: int = setting(
        "efficientnet_lite0, mobilenet_v2, resnet50: pixels between two places of the feature map; 16 dilates the "
        "last stage, for maps twice as large with the same weights",
        OUTPUT_STRIDE,
        within=POSITIVE,
    )
    embedding_dim: int = setting("size of the embedding", within=POSITIVE)
    matryoshka: str | None = setting(
        "lengths of prefixes of the embedding, such as `32,64`, that are trained and tested beside the whole (default: "
        "none)",
        None,
    )
    head_start: str = setting(
        "first values of the linear layer behind the pooling: `random`, `identity` (training then begins with the "
        "pooled features, whose number --embedding_dim has to be), or on the training classes `pca` (their principal "
        "axes), `whitening` (within classes, then principal axes) or `soft_whitening` (three quarters of it)",
        RANDOM_START,
        choices=(RANDOM_START, IDENTITY_START, *HEAD_STARTS),
    )
    normalization: str = setting("embeddings and proxies are compared as v/|v| (`unit`) or v/max(1,|v|) (`clip`)")
    frozen_batch_norm: bool = setting("batch normalisation of the backbone in inference mode, not trained")
    fold_batch_norm: bool = setting(
        "compute frozen batch normalisation inside the convolutions: faster, the same but for rounding", False
    )
    frozen_backbone: bool = setting("train the head and the loss alone (default: everything)", False)
    trained_from: str | None = setting(
        "train what lies above a cut: `head`, or the first layer, block or stage of the backbone that is trained (a "
        "wrong name lists them); below, batch normalisation is in inference mode; `everything`: no cut (default: "
        "everything, but the head with --recipe=own_photos without a GPU)",
        None,
    )
    cached_features: bool | None = setting(
        "trained_from: compute the features below the cut once for every view, keep them in float16 in --cache_dir "
        "(checked for room first) and train from there; no: at every step (default: yes)",
        None,
    )
    lora_rank: int | None = setting(
        "transformers: rank of trained updates of the dense layers, whose own weights stay fixed (LoRA); the exported "
        "model has them merged (default: everything is trained)",
        None,
        within=POSITIVE,
    )
    lora_norms: bool = setting("lora_rank: train layer normalisations, too", False)
    num_prompts: int | None = setting(
        f"{', '.join(TRANSFORMERS)}: trained tokens beside the patches; the network's own weights stay fixed (default: "
        "everything is trained)",
        None,
        within=POSITIVE,
    )
    prompt_blocks: str = setting(
        "num_prompts: blocks with prompts of their own: `all`, or the `first`", ALL_BLOCKS, choices=PROMPTED
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings, title="Training"):
    """Batches, steps and rates."""

    classes_per_batch: int = setting("different classes in a batch", within=POSITIVE)
    samples_per_class: int = setting("images per class in a batch", within=POSITIVE)
    micro_batch: int | None = setting(
        "images per backbone pass; large batches then fit in the memory of small ones, at the cost of a second "
        "forward pass (default: the batch)",
        None,
        within=POSITIVE,
    )
    sampler: str = setting(
        "batches: `rounds` (all classes in turn; default), `m_per_class` (these, interleaved as in the published "
        "code), `spc` (random classes), `superclasses` (random classes of few superclasses), `spc_r` (any images, with "
        "a pair); or chosen by embeddings as of the last "
        "validation: `coreset` (far apart), `distances` or `frechet` (distributed like 1,024 random images), "
        "`hard_negatives` (an image and the nearest other classes)",
        "rounds",
        choices=SAMPLERS,
    )
    superclasses_per_batch: int = setting(
        "superclasses: their number in a batch; the superclass of dogs/poodle is dogs",
        2,
        within=POSITIVE,
    )
    image_noise: float = setting(
        "standard deviation of Gaussian noise on training images, of 255", 0.0, within=NOT_NEGATIVE
    )
    feature_dropout: float = setting(
        "share of the backbone's channels set to 0 in training", 0.0, within=NumberRange(0, 1, low_included=True)
    )
    feature_noise: float = setting(
        "standard deviation of Gaussian noise on the backbone's channels in training", 0.0, within=NOT_NEGATIVE
    )
    learning_rate: float = setting("learning rate of the optimiser", within=POSITIVE)
    optimizer: str = setting("`adam`, or `adamw`, whose weight decay is decoupled", "adam", choices=OPTIMIZERS)
    learning_rate_schedule: str = setting(
        "`constant`, or `cosine`, which falls to 0 at --max_steps", "constant", choices=("constant", COSINE)
    )
    rate_drop_step: int | None = setting(
        "update step at which the learning rate drops, once (default: none, but for DiVA in full length)",
        None,
        within=POSITIVE,
    )
    rate_drop_factor: float | None = setting(
        "factor of the learning rate at `rate_drop_step` (default: none)", None, within=NumberRange(0, 1)
    )
    layer_decay: float | None = setting(
        "transformers: factor of the learning rate from each block to the one below it (default: one rate for all)",
        None,
        within=NumberRange(0, 1),
    )
    ema_decay: float = setting(
        "decay of moving averages of the weights, which are evaluated, selected and kept in their place; at step t at "
        "most (1 + t) / (10 + t); 0: none",
        0.0,
        within=NumberRange(0, 1, low_included=True),
    )
    interpolation: str | None = setting(
        "shares of the way from the starting weights (0) to the trained ones (1) at which a run is measured, too, such "
        "as `0,0.5`; with 0 or --pooling=gap, validation chooses among them (default: none, but with "
        "--recipe=own_photos)",
        None,
    )
    kept_share: float = setting(
        "share of the way from the starting weights to the trained ones that the run's model keeps",
        1.0,
        within=SHARE,
    )
    beta_2: float = setting("Adam's second moment's decay", within=NumberRange(0, 1, low_included=True))
    weight_decay: float = setting("coupled L2 added to the gradient; of `adamw` decoupled", within=NOT_NEGATIVE)
    clip_norm: float = setting("largest global gradient norm, 0 for no clipping", within=NOT_NEGATIVE)
    clip_value: float = setting("largest gradient entry, 0 for no clipping", within=NOT_NEGATIVE)
    proxy_multiplier: float = setting("learning rate of proxies over that of the network", within=POSITIVE)
    warm_up_epochs: int = setting(
        "epochs of the sampler that train head and losses alone, before training", within=NOT_NEGATIVE
    )
    warm_up_steps: int = setting(
        "update steps that train head and losses alone, instead of `warm_up_epochs`", within=NOT_NEGATIVE
    )
    warm_up_trains_all: bool = setting(
        "warm-up of the whole network, not of head and losses alone (default: the recipe's)", False
    )
    steps_per_evaluation: int = setting("update steps between validations", within=POSITIVE)
    max_steps: int = setting("most update steps", within=POSITIVE)
    patience: int = setting("validations without improvement before training ends", within=POSITIVE)
    plateau_patience: int = setting(
        "validations without improvement before the learning rate is halved, 0: never", within=NOT_NEGATIVE
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceSettings(Settings, title="Devices and precision"):
    """Precision and number of devices of a host."""

    precision: str = setting(
        "of the network: `float32`, `mixed_float16` or `mixed_bfloat16`; distances and losses are float32 in each",
        "float32",
        choices=("float32", "mixed_float16", "mixed_bfloat16"),
    )
    strategy: str = setting(
        "`mirrored`: the batch is divided among --replicas devices of this host; the loss sees all of it",
        "none",
        choices=("none", "mirrored"),
    )
    replicas: int | None = setting(
        "mirrored: number of GPUs, or on a host without any, of virtual devices of its processor (to try it)",
        None,
        within=NumberRange(low=2, low_included=True),
    )
    jit_compile: bool = setting("compile the training step with XLA", False)


def method_name(loss: str, method: str, pooling: str) -> str:
    """Return a method's name in tables and folders: loss, `--method` unless it is plain, pooling."""
    return "+".join([loss, *([] if method == PLAIN else [method]), pooling])


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings(
    ComparisonSettings, ProtocolSettings, ImageSettings, NetworkSettings, TrainingSettings, DeviceSettings
):
    """The settings of every run, with those of its method's parts."""

    parts: tuple[Settings, ...] = ()  # the settings of the parts that are chosen
    # the layer that set each value last, by flag; not part of the identity
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def batch_size(self) -> int:
        """Images in a batch."""
        return self.classes_per_batch * self.samples_per_class

    @property
    def sampler_part(self) -> kinds.Sampler:
        """The sampler of batches."""
        return SAMPLERS[self.sampler]

    @property
    def prefix_lengths(self) -> tuple[int, ...]:
        """The components of each trained prefix, the whole embedding last; empty without `--matryoshka`.

        Raises:
            InvalidInput: the setting is no list of increasing lengths below that of the embedding.
        """
        if self.matryoshka is None:
            return ()
        words = [word.strip() for word in self.matryoshka.split(",")]
        lengths = (*(int(word) for word in words if word.isdecimal()), self.embedding_dim)
        increases = all(first < second for first, second in zip((0, *lengths), lengths))
        if len(lengths) != len(words) + 1 or not increases:
            expected = f"increasing numbers between 0 and --embedding_dim={self.embedding_dim}, separated by commas"
            raise invalid("--matryoshka", received=self.matryoshka, expected=expected)
        return lengths

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of the way at which a run is measured.

        Raises:
            InvalidInput: the setting is no list of increasing numbers from 0 to below 1.
        """
        words = [] if self.interpolation is None else self.interpolation.split(",")
        try:
            shares = tuple(float(word) for word in words)
        except ValueError:
            shares = (-1.0,)
        if any(not first < second for first, second in zip(shares, (*shares[1:], 1.0))) or min(shares, default=0) < 0:
            expected = "increasing numbers from 0 to below 1, separated by commas"
            raise invalid("--interpolation", received=self.interpolation, expected=expected)
        return shares

    @property
    def monitor(self) -> str:
        """The deciding validation metric: R@1 (P@1) in the conventional protocol, else MAP@R."""
        return "P@1" if self.protocol in CONVENTIONAL_PROTOCOLS else "MAP@R"

    @property
    def validates_clustering(self) -> bool:
        """True if each validation measures NMI, as the "Revisiting" benchmark's tables need."""
        return self.recipe == REVISITING

    @property
    def name(self) -> str:
        """The method's name in tables and folders: loss, `ccp`, pooling."""
        return method_name(self.loss, self.method, self.pooling)

    @functools.cached_property
    def methods(self) -> tuple[Method, ...]:
        """The methods around the loss, the innermost first."""
        parts = methods_of(self.loss, self.method, self.pooling)
        if self.loss.miner and not {"rho", PADS} & {part.name for part in parts}:
            parts.append(METHODS["rho"])
        miner = part_of("miner", vars(self))
        of_loss = {
            "features": self.loss.features,
            "miner": miner and functools.partial(miner, self._settings_of(miner)),
        }
        found = [(part.layer, part(self._settings_of(part), **of_loss)) for part in parts]
        found += [(1, Prefixes(lengths=self.prefix_lengths))] if self.matryoshka is not None else []
        if self.interpolation is not None or self.kept_share != 1.0:
            found += [(1, WeightInterpolation(shares=self.shares, kept=self.kept_share))]
        return tuple(method for _, method in sorted(found, key=operator.itemgetter(0)))

    def methods_of(self, kind: type[AnyMethod]) -> list[AnyMethod]:
        """Return the methods of a class."""
        return [method for method in self.methods if isinstance(method, kind)]

    def own(self, kind: str) -> Settings | None:
        """Return the settings of the part that a flag names; None if there is none."""
        part = part_of(kind, vars(self))
        return self._settings_of(part) if part else None

    def _settings_of(self, part: kinds.Part) -> Settings | None:
        return next((each for each in self.parts if type(each) is part.settings), None)


RUN_SECTIONS: tuple[type[Settings], ...] = RunSettings.__bases__  # type: ignore[assignment]  # they are settings
