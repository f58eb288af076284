"""The parts of this library by name: its own plug-in, see `registry.Registry`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

import ccp_dml.method
import gsp_dml.method
from common import data, losses, training
from common.data.memory_batches import CRITERIA
from common.parameters import Anchors, Count, Distance, Normalization, NotNegative, NumberRange, Positive
from common.training import methods
from experiments.parts.kinds import Size
from milbich_dml import features
from milbich_dml.features import FEATURES as FEATURES
from milbich_dml.pads import Pads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from common.losses import MetricLoss
    from experiments.parts.registry import Registry

WORDS = ("rho", "xbm", "s2sd", *FEATURES, "ccp", "plain")  # of methods' names, so no parts' names

EMOJI_CLUTTER = {"emoji_clutter_64": 64, "emoji_clutter_48": 48, "emoji_clutter_32": 32}  # their sides in pixels
GSP = "gsp_dml:GeneralizedSumPooling"
_MARGIN, _MARGINS = {"margin": "margin"}, {each: each for each in ("positive_margin", "negative_margin")}
_INITIALIZER = {"initializer": "proxy_initializer"}
_SCALE, _PENALTY = {"scale": "loss_scale"}, {"norm_penalty": "norm_penalty"}
_RANK = {"temperature": "rank_temperature"}


def register(registry: Registry) -> None:
    """Add all parts.

    Their settings keep the names that they have in stored configurations and in flags.
    """
    _losses(registry)
    _miners(registry)
    _methods(registry)
    _samplers(registry)
    _poolings(registry)
    _data_sets(registry)


def _losses(registry: Registry) -> None:
    def add(name: str, constructor: str, names: dict[str, str], **more: Any) -> None:
        registry.loss(name, f"common.losses:{constructor}", names=names, **more)

    reduction = {"reduction": "pair_reduction"}
    add("c1", "CosineContrastiveLoss", _MARGIN | reduction, omits=reduction)
    add("c2", "ContrastiveLoss", _MARGINS)
    add("triplet", "TripletLoss", _MARGIN, of_triplets=True)
    scales = {"positive_scale": "ms_alpha", "negative_scale": "ms_beta", "threshold": "ms_base"}
    add("ms", "MultiSimilarityLoss", scales | reduction, omits=reduction)
    add("pnca", "ProxyNCALoss", _INITIALIZER | {"temperature": "temperature"})
    add("panchor", "ProxyAnchorLoss", _INITIALIZER | {"margin": "panchor_margin", "scale": "panchor_scale"})
    of_softtriple = {each: f"softtriple_{each}" for each in ("scale", "gamma", "tau", "margin")}
    add("softtriple", "SoftTripleLoss", _INITIALIZER | {"centers_per_class": "centers_per_class"} | of_softtriple)
    boundaries = {each: each for each in ("boundary", "boundary_per_class")}
    registry.loss("margin", f"{__name__}:margin_loss", names=_MARGIN | boundaries, of_triplets=True)
    add("npair", "NPairLoss", _SCALE | _PENALTY)
    add("lifted", "LiftedStructureLoss", _MARGIN | _PENALTY, fixed={"generalized": False})
    add("lifted_generalized", "LiftedStructureLoss", _MARGIN | _PENALTY, fixed={"generalized": True})
    add("quadruplet", "QuadrupletLoss", _MARGIN | {"second_margin": "second_margin"})
    of_angular = {each: each for each in ("angle", "angular_weight")}
    registry.loss("angular", f"{__name__}:angular_loss", names=_SCALE | _PENALTY | of_angular)
    add("histogram", "HistogramLoss", {"num_nodes": "histogram_nodes"})
    components = {"mean_penalty": "mean_penalty"}
    add("snr", "SignalToNoiseLoss", _MARGINS | components, fixed={"terms": "contrastive", "margin": 0.2})
    of_pairs = {"positive_margin": 0.0, "negative_margin": 1.0}
    add("snr_triplet", "SignalToNoiseLoss", _MARGIN | components, fixed={"terms": "triplet", **of_pairs})
    add("normsoftmax", "NormalizedSoftmaxLoss", _INITIALIZER | {"temperature": "temperature"})
    centers = {"centers_per_class": "arcface_centers"}
    add("arcface", "ArcFaceLoss", _INITIALIZER | _MARGIN | _SCALE | centers, omits=centers)
    add("cosface", "CosFaceLoss", _INITIALIZER | {"margin": "cosface_margin", "scale": "cosface_scale"})
    add("circle", "CircleLoss", _MARGIN | _SCALE)
    add("supcon", "SupervisedContrastiveLoss", {"temperature": "supcon_temperature"})
    add("smoothap", "SmoothAPLoss", _RANK)
    thresholds = {f"{each}_threshold": f"calibration_{each}" for each in ("positive", "negative")}
    add("roadmap", "RoadmapLoss", _RANK | {"calibration_weight": "calibration_weight"} | thresholds)
    registry.loss("recall_at_k", f"{__name__}:recall_at_k_loss", names=_RANK | {"largest_k": "largest_k"})
    add("pnp", "PenalizedNegativesLoss", _RANK | {"penalty": "pnp_penalty", "power": "pnp_power"})
    add("fastap", "FastAPLoss", {"num_bins": "fastap_bins"})
    of_hyperbolic = {each: f"hyperbolic_{each}" for each in ("curvature", "radius", "temperature")}
    add("hyperbolic", "HyperbolicLoss", of_hyperbolic, on_sphere=True)


def _miners(registry: Registry) -> None:
    names = {"random": "random", "semihard": "semi_hard", "softhard": "soft_hard", "distance": "distance_weighted"}
    names |= {"interclass": "inter_class", "pads": "pads", "batchhard": "batch_hard"}
    for word, miner in (names | {"multisimilarity": "multi_similarity"}).items():
        registry.miner(word, f"{__name__}:miner_of_losses", fixed={"miner": miner})


def _samplers(registry: Registry) -> None:
    """Add the samplers of batches, the optimisers and the augmentations."""

    def add(name: str, constructor: str, fixed: dict[str, Any] | None = None, **traits: Any) -> None:
        registry.sampler(name, f"common.data:{constructor}", fixed=fixed, **traits)

    add("rounds", "ClassBalancedBatches", {"interleaved": False, "refills_blindly": False})
    add("m_per_class", "ClassBalancedBatches", {"interleaved": True, "refills_blindly": True})
    add("spc", "MPerClassBatches")
    add("spc_r", "RandomPairBatches")
    registry.sampler("superclasses", f"{__name__}:superclass_batches")
    for criterion in CRITERIA:
        add(criterion, "MemoryBatches", {"criterion": criterion}, by_embeddings=True)
    registry.optimizer("adam", f"{__name__}:adam")
    registry.optimizer("adamw", f"{__name__}:adamw")
    of_files: dict[str, Callable[[int], data.ImageTransform]] = {
        "thesis": lambda size: data.ThesisCrop(size),
        "published_code": lambda size: data.PublishedCodeCrop(size),
        "reduced": lambda size: data.ReducedCrop(size),
        "jittered": lambda size: data.JitteredCrop(size),
    }
    for name, crop in of_files.items():
        registry.augmentation(name, crop, of_files=True)
    registry.augmentation("shift", lambda: data.RandomShift(2))
    registry.augmentation("shift_4", lambda: data.RandomShift(4))
    registry.augmentation("shift_flip", lambda: data.RandomShift(4, flip=True))
    registry.augmentation("none", lambda: data.NoAugmentation())


def _methods(registry: Registry) -> None:
    """Add the methods around a loss; their defaults are not stored."""

    def add(
        name: str,
        constructor: type[Any],
        names: dict[str, str],
        has: Callable[[Collection[str], Any], bool] | None,
        **more: Any,
    ) -> None:
        defaults = [field.name for field in dataclasses.fields(constructor) if field.default is not dataclasses.MISSING]
        omits = [each for each in defaults if each != "p_switch"]
        registry.method(name, constructor, names=names, omits=omits, has=has, **more)

    def with_word(name: str) -> Callable[[Collection[str], Any], bool]:
        return lambda words, loss: name in words

    def prefixed(prefix: str, arguments: str) -> dict[str, str]:
        return {each: f"{prefix}_{each}" for each in arguments.split()}

    add("rho", methods.DrawnTriplets, {"p_switch": "p_switch"}, with_word("rho"), layer=0)
    of_policy = prefixed("pads", "bins low high start outside steps images by reward estimator state windows draws")
    add("pads", Pads, of_policy | {"learning_rate": "pads_learning_rate"}, with_word("pads"), layer=0)
    of_memory = prefixed("xbm", "batches start fills_first holds_batch terms weight")
    stored = {f"xbm_{each}": f"memory_{each}" for each in ("batches", "start", "fills_first", "holds_batch")}
    add("xbm", methods.Memory, of_memory, with_word("xbm"), layer=2, stored_as=stored)
    of_teachers = prefixed("s2sd", "dims weight feature_weight temperature start")
    add("s2sd", methods.SelfDistillation, of_teachers, with_word("s2sd"), layer=5)
    own = {field.name: field.name for field in dataclasses.fields(methods.Regularizers)}
    add("regularizers", methods.Regularizers, own, lambda words, loss: True, layer=4)
    of_tasks = {"weight": "feature_weight", "decorrelation": "decorrelation", "reduction": "decorrelation_reduction"}
    add("features", features.Features, of_tasks, lambda words, loss: not {*FEATURES}.isdisjoint(words), layer=6)
    schedule = {"schedule": "feature_schedule", "single_encoder": "single_encoder", "num_groups": "num_groups"}
    add(
        "shared",
        features.SharedFeature,
        schedule | prefixed("shared", "triplets negatives positives"),
        with_word("shared"),
    )
    add("groups", features.ImageGroups, schedule | prefixed("group", "epochs by"), with_word("groups"))
    add("dance", features.Dance, prefixed("dance", "queue_batches temperature weights"), with_word("dance"))
    own = {"proxies_per_class": "proxies_per_class", "pool_size": "pool_size", "patience": "projection_patience"}
    of_problems = prefixed("ccp", "in_batch_weight start start_patience goes_back max_failures continue_from")
    of_problems |= prefixed("ccp", "first_centers reads_late keeps_problems max_problems problem_steps")
    of_proximal_term = {"weight": "ccp_lambda", "first_weight": "ccp_first_lambda"}
    add("ccp", ccp_dml.method.Method, own | of_problems | of_proximal_term, None, layer=3)
    add("ccp_anchors", ccp_dml.method.Anchors, {"anchors": "ccp_anchors"}, _anchored)
    of_halves = prefixed("zero_shot", "weight ridge scale reduction halves")
    own = {each: each for each in ("prototype_multiplier", "label_initializer")}
    add("gsp", gsp_dml.method.Method, of_halves | own, with_word("gsp"))


def _anchored(words: Collection[str], loss: Any) -> bool:
    return "ccp" in words and loss is not None and loss.sees_one_side


def _poolings(registry: Registry) -> None:
    def add(name: str, constructor: str, **more: Any) -> None:
        registry.pooling(name, f"common.pooling:{constructor}", names={}, **more)

    add("gap", "GlobalAveragePooling")
    add("gmp", "GlobalMaxPooling")
    add("cls", "ClassTokenPooling", of_class_token=True)
    add("gap+gmp", "GlobalAverageMaxPooling")
    add("cbam", "CBAMPooling")
    add("crow", "CrossDimensionalPooling")
    add("delf", "DeLFPooling")
    add("gemax", "GeneralizedMaxPooling")
    add("gemean", "GeneralizedMeanPooling")
    add("gsop", "SecondOrderPooling", project_first=True)
    few: dict[str, Any] = {"vectors": 8, "project_first": True}
    many: dict[str, Any] = {"vectors": 64, "project_first": True, "embedding_dim": 64 * 128}
    add("otp_8x16", "OptimalTransportPooling", fixed={"num_prototypes": 8}, **few)
    add("otp_64x128", "OptimalTransportPooling", fixed={"num_prototypes": 64}, **many)
    add("solar", "SecondOrderAttentionPooling")
    add("tsmk", "NormAttentionPooling")
    add("netvlad_8x16", "NetVLADPooling", fixed={"num_clusters": 8}, **few)
    add("netvlad_64x128", "NetVLADPooling", fixed={"num_clusters": 64}, **many)
    add("weldon", "WeldonPooling", project_first=True)
    arguments = ("num_prototypes", "transport_ratio", "smoothing", "solver", "num_iterations")
    of_memory = {each: f"gsp_{each}" for each in ("memory_size", "memory_features", "memory_delay")}
    for name, aggregation in (("gsp", None), ("gmp+gsp", "max"), ("gemean+gsp", "generalized_mean")):
        registry.pooling(
            name,
            GSP,
            names={each: each for each in arguments} | of_memory,
            omits=("num_iterations", "memory_features", "memory_delay"),
            stored_as={flag: argument for argument, flag in of_memory.items()},
            fixed={"prototype_initializer": "feature_memory", "return_attributes": True, "return_attention": False},
            project_first=aggregation is None,
            combined_with=aggregation,
            counted_in_batches=("memory_delay",),
        )


def _data_sets(registry: Registry) -> None:
    def add(name: str, load: str, *, fixed: dict[str, Any] | None = None, **traits: Any) -> None:
        registry.dataset(name, f"common.data:load_{load}", fixed=fixed, **traits)

    embedded: dict[str, Any] = {"needs_files": False}
    add("emoji", "emoji", size=Size(598, 3_599, 3_578), **embedded)
    for name, side in EMOJI_CLUTTER.items():
        add(name, "emoji_clutter", fixed={"side": side}, with_targets=True)
    # Any photographs; the recorded rows of `emoji_clutter_*` have those of Caltech-101.
    name = "emoji_on_photographs"
    add(name, "emoji_clutter", fixed={"side": 64, "name": name}, with_targets=True)
    add("glyphs", "glyphs", kind="characters", **embedded)
    add("glyph_scripts", "glyph_scripts", kind="characters", **embedded)
    collages: dict[str, Any] = {"kind": "collages", "label_by": "start", **embedded}
    distilled = {"nuisance": False}
    add("glyph_collage", "glyph_collage", with_targets=True, **collages)
    add("glyph_collage_distilled", "glyph_collage", fixed=distilled, **collages)
    add("synthetic_tokens", "synthetic_tokens", kind="tokens", label_by="pooling", **embedded)

    photographs: dict[str, Any] = {"kind": "photographs"}
    add("cars196", "cars196", source="cars196", size=Size(98, 8_054, 8_131), **photographs)
    add("cub200", "cub200", source="cub200", size=Size(100, 5_864, 5_924), **photographs)
    large: dict[str, Any] = {"large": True, **photographs}
    of_sop: dict[str, Any] = {"recall_at": (1, 10, 100, 1000), "size": Size(11_318, 59_551, 60_502)}
    of_inshop: dict[str, Any] = {"recall_at": (1, 10, 20, 30), "size": Size(3_997, 25_882, 26_830)}
    add("sop", "stanford_online_products", source="sop", **large, **of_sop)
    add("inshop", "in_shop", source="inshop", **large, **of_inshop)

    of_10: dict[str, Any] = {"kind": "thumbnails", "source": "cifar10"}
    of_100: dict[str, Any] = {"kind": "thumbnails", "source": "cifar100"}
    add("cifar10", "cifar10", **of_10)
    add("cifar10_seen", "cifar10", fixed={"validation_share": 0.1}, **of_10)
    add("cifar10_unseen", "cifar10", fixed={"unseen_classes": True}, **of_10)
    add("cifar100", "cifar100", **of_100)
    add("cifar100_unseen", "cifar100", fixed={"unseen_classes": True}, **of_100)
    for suffix, division in (("", "thesis"), ("_published_code", "published_code")):
        add(f"cifar_collage{suffix}", "cifar_collage", fixed={"division": division}, **of_100)
        add(f"cifar_collage{suffix}_distilled", "cifar_collage", fixed={"division": division, **distilled}, **of_100)
    add("cifar10_collage", "cifar10_collage", **of_10)
    add("cifar10_collage_distilled", "cifar10_collage", fixed=distilled, **of_10)

    own: dict[str, Any] = {"default_recipe": "own_photos", "custom": True, **photographs}
    of_both = ("min_images", "skip_unreadable")
    add("folder", "image_folder", takes=("train_fraction", "by_family", "exclude", *of_both), **own)
    add("manifest", "manifest", takes=("label_column", *of_both), **own)


def miner_of_losses(miner: str) -> str:
    """Miner of `common.losses.MinedLoss`."""
    return miner


def superclass_batches(
    labels: np.ndarray,
    superclasses: np.ndarray,
    superclasses_per_batch: int,
    classes_per_batch: int,
    samples_per_class: int,
    seed: int,
) -> data.HierarchicalBatches:
    """Batches of few superclasses."""
    classes, levels = classes_per_batch // superclasses_per_batch, np.stack([labels, superclasses], axis=1)
    return data.HierarchicalBatches(levels, superclasses_per_batch, classes, samples_per_class, seed)


def adam(learning_rate: float, beta_2: float) -> training.FusedAdam:
    """Adam."""
    return training.FusedAdam(learning_rate, beta_1=0.9, beta_2=beta_2)


def adamw(learning_rate: float, beta_2: float, weight_decay: float) -> training.FusedAdamW:
    """Adam with decoupled weight decay."""
    return training.FusedAdamW(learning_rate, weight_decay=weight_decay, beta_1=0.9, beta_2=beta_2)


def margin_loss(
    num_classes: int,
    margin: NotNegative = 0.2,
    boundary: Distance = 1.2,
    boundary_per_class: bool = False,
    anchors: Anchors = "embeddings",
    normalization: Normalization = "unit",
) -> MetricLoss:
    """Margin loss with a learnable boundary.

    Args:
        margin: distance from the boundary at which a pair's term begins.
        boundary: its first value (beta).
        boundary_per_class: a boundary for each class, or one for all.
    """
    num_boundaries = num_classes if boundary_per_class else None
    return losses.MarginLoss(num_boundaries, margin, boundary, anchors, normalization=normalization)


def angular_loss(
    scale: Positive = 1.0,
    norm_penalty: NotNegative = 0.0,
    angle: Annotated[float, NumberRange(0, 60, high_included=True)] = 45.0,
    angular_weight: NotNegative = 2.0,
    anchors: Anchors = "embeddings",
    normalization: Normalization = "unit",
) -> MetricLoss:
    """Angular loss beside the N-pair loss.

    Args:
        scale: of the N-pair loss's inner products.
        norm_penalty: weight of the embeddings' mean norm.
        angle: largest angle at the negative (alpha), in degrees.
        angular_weight: of the angular loss beside the N-pair loss.
    """
    pairs = losses.NPairLoss(scale, norm_penalty, anchors, normalization=normalization)
    parts = [pairs, losses.AngularLoss(angle, anchors)]
    return losses.WeightedSumLoss(parts, [1.0, angular_weight])


def recall_at_k_loss(
    temperature: Positive = 0.01,
    largest_k: Count = 16,
    anchors: Anchors = "embeddings",
    normalization: Normalization = "unit",
) -> MetricLoss:
    """Recall@k surrogate, k being powers of two.

    Args:
        temperature: of the sigmoid that counts more similar images.
        largest_k: largest k, of 1, 2, 4, ...
    """
    ks = [2**power for power in range(largest_k.bit_length())]
    return losses.RecallAtKLoss(ks, temperature, anchors=anchors, normalization=normalization)
