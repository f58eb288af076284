"""What an experiment is: one frozen record, resolved from flags and recipe, hashed, and written beside its results."""

from __future__ import annotations

import dataclasses
import hashlib
import json

from common.ops.checks import InvalidInput, check_choice
from experiments.settings.cut_settings import check_cut
from experiments.settings.initial_weights import is_file, weights_file
from experiments.settings.number_ranges import RANGES, check_number

CONVENTIONAL_PROTOCOLS = ("conventional", "held_out")
FINAL = "final"  # all training classes, for a number of steps that is fixed: a model to deploy


def _field(help_text: str, default=dataclasses.MISSING):
    return dataclasses.field(default=default, metadata={"help": help_text})


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """Everything that decides the outcome of a unit, but its fold and repeat. Every field is a flag."""

    dataset: str = _field("data set; those of `glyphs` and `synthetic_tokens` need no download")
    loss: str = _field("metric loss; of pair losses also LOSS[+MINER[+rho]][+xbm]: mined, regularised, with a memory")
    pooling: str = _field("pooling of the feature map")
    method: str = _field("`plain`, or `ccp`: alternating projections around a pair loss")
    recipe: str = _field("`thesis` (printed text, errata corrected), `published_code` or `revisiting`")
    budget: str = _field("length of training: `full`, `demo` (minutes on a CPU) or `smoke` (seconds)")
    chapter: int = _field("whose settings: 3 (CCP and its baselines) or 5 (GSP and its baselines)")
    backbone: str = _field("network before the pooling")
    weights: str = _field("initial backbone parameters: `imagenet`, `none`, or an .npz file")
    embedding_dim: int = _field("size of the embedding")
    normalization: str = _field("embeddings and proxies are compared as v/|v| (`unit`) or v/max(1,|v|) (`clip`)")
    image_size: int = _field("height and width of the network's input in pixels")
    crop: str = _field("augmentation: `thesis`, `published_code`, `shift` (characters), `shift_flip` (CIFAR) or `none`")
    classes_per_batch: int = _field("different classes in a batch")
    samples_per_class: int = _field("images per class in a batch")
    learning_rate: float = _field("Adam's learning rate")
    beta_2: float = _field("Adam's second moment's decay")
    weight_decay: float = _field("coupled L2 added to the gradient")
    clip_norm: float = _field("largest global gradient norm, 0 for no clipping")
    clip_value: float = _field("largest gradient entry, 0 for no clipping")
    proxy_multiplier: float = _field("learning rate of proxies over that of the network")
    warm_up_epochs: int = _field("epochs of the sampler that train head and losses alone, before training")
    warm_up_steps: int = _field("update steps that train head and losses alone, instead of `warm_up_epochs`")
    frozen_batch_norm: bool = _field("batch normalisation of the backbone in inference mode, not trained")
    steps_per_evaluation: int = _field("update steps between validations")
    max_steps: int = _field("most update steps")
    patience: int = _field("validations without improvement before training ends")
    plateau_patience: int = _field("validations without improvement before the learning rate is halved, 0: never")
    num_folds: int = _field("class-disjoint folds of the training classes", 4)
    fold_order: str = _field("fold k validates on block k (`forward`) or on the last but k (`backward`)", "forward")
    positive_margin: float | None = _field("c2 and snr: largest distance of positives without loss", None)
    negative_margin: float | None = _field("c2 and snr: smallest distance of negatives without loss", None)
    margin: float | None = _field(
        "c1, triplet, margin, lifted, quadruplet, snr_triplet, arcface (radians), circle: margin", None
    )
    pair_reduction: str | None = _field(
        "c1 and ms: the terms of an anchor's partners are added (`sum`; default) or divided by the number of active "
        "ones, too (`mean_of_active`)",
        None,
    )
    ms_alpha: float | None = _field("multi-similarity: scale of positives", None)
    ms_beta: float | None = _field("multi-similarity: scale of negatives", None)
    ms_base: float | None = _field("multi-similarity: similarity threshold (lambda)", None)
    boundary: float | None = _field("margin: first value of the learnable boundary (beta)", None)
    boundary_per_class: bool | None = _field("margin: a boundary for each class, or one for all", None)
    loss_scale: float | None = _field("npair, angular, arcface and circle: scale of the similarities", None)
    norm_penalty: float | None = _field("npair, angular and lifted: weight of the embeddings' mean norm", None)
    second_margin: float | None = _field("quadruplet: margin between pairs without a common image", None)
    angle: float | None = _field("angular: largest angle at the negative (alpha), in degrees", None)
    angular_weight: float | None = _field("angular: its weight beside the N-pair loss", None)
    histogram_nodes: int | None = _field("histogram: nodes between similarities of -1 and 1", None)
    mean_penalty: float | None = _field("snr: weight of the sum of each embedding's components", None)
    p_switch: float | None = _field("rho: how often the positive takes the negative's place, in [0, 1]", None)
    temperature: float | None = _field("pnca and normsoftmax: temperature of the soft-max", None)
    panchor_margin: float | None = _field("panchor: margin (delta)", None)
    panchor_scale: float | None = _field("panchor: scale (alpha)", None)
    centers_per_class: int | None = _field("softtriple: centres a class", None)
    softtriple_scale: float | None = _field("softtriple: scale of the soft-max over classes (lambda)", None)
    softtriple_gamma: float | None = _field("softtriple: temperature of the assignment to centres (gamma)", None)
    softtriple_tau: float | None = _field("softtriple: weight of the regulariser of centres (tau)", None)
    softtriple_margin: float | None = _field("softtriple: margin (delta)", None)
    memory_batches: int | None = _field("xbm: batches in the memory", None)
    memory_start: int | None = _field("xbm: update steps before the memory is used", None)
    memory_fills_first: bool | None = _field("xbm: `memory_start` counts from the moment the memory is full", None)
    memory_holds_batch: bool | None = _field("xbm: the memory holds the current batch when it is compared", None)
    proxy_initializer: str | None = _field("proxies: `he_normal` or `he_normal_over_proxies`", None)
    proxies_per_class: int | None = _field("ccp: proxies a class", None)
    pool_size: int | None = _field("ccp: images a class among which the next proxies are chosen", None)
    ccp_lambda: float | None = _field("ccp: weight of the proximal term", None)
    ccp_first_lambda: float | None = _field("ccp: that weight in the first problem", None)
    projection_patience: int | None = _field("ccp: validations without improvement that end a problem", None)
    ccp_anchors: str | None = _field(
        "ccp, losses with anchors: these are the samples (`embeddings`) or the proxies (`references`)", None
    )
    ccp_in_batch_weight: float | None = _field("ccp: weight of the ordinary in-batch loss beside the proxies'", None)
    ccp_start: int | None = _field("ccp: update steps with the in-batch loss alone before the first problem", None)
    ccp_start_patience: int | None = _field(
        "ccp: the first problem begins, from the in-batch loss's best weights, after so many validations without "
        "improvement, and not before `ccp_start`; 0: at `ccp_start`",
        None,
    )
    ccp_goes_back: bool | None = _field(
        "ccp: after a problem that ends below the one before, the next begins from that one's best again", None
    )
    ccp_max_failures: int | None = _field(
        "ccp: no problem begins after so many in a row that went back; 0: no limit", None
    )
    ccp_continue_from: str | None = _field("ccp: a problem begins from the `best` or the `last` weights", None)
    ccp_first_centers: str | None = _field("ccp: first proxies seeded by a `sample` a class or by the `origin`", None)
    ccp_reads_late: bool | None = _field("ccp: each validation is read one validation late", None)
    ccp_keeps_problems: bool | None = _field("ccp: keep the test embeddings of each problem's beginning", None)
    ccp_max_problems: int | None = _field("ccp: most problems; 1 keeps the first proxies (default: no limit)", None)
    num_prototypes: int | None = _field("gsp: prototypes", None)
    transport_ratio: float | None = _field("gsp: share of the features that is pooled (mu), in (0, 1]", None)
    smoothing: float | None = _field("gsp: inverse weight of the entropy (epsilon)", None)
    solver: str | None = _field("gsp: `exact` or `fixed_point`", None)
    num_iterations: int | None = _field("gsp: iterations of the fixed-point solver", None)
    memory_size: int | None = _field("gsp: average embeddings collected before prototypes are chosen", None)
    memory_features: str | None = _field("gsp: memory of `image_averages` (default) or of `local_features`", None)
    memory_delay: int | None = _field("gsp: update steps before the memory is filled (default: none)", None)
    zero_shot_weight: float | None = _field("gsp: weight of the zero-shot prediction loss (lambda), in [0, 1]", None)
    zero_shot_ridge: float | None = _field("gsp: ridge of the zero-shot regression", None)
    zero_shot_scale: float | None = _field("gsp: scale of the zero-shot logits", None)
    zero_shot_reduction: str | None = _field("gsp: `sum_of_means` of the halves or the `mean` of the batch", None)
    zero_shot_halves: str | None = _field("gsp: halves of the batch by `classes` or by `even_odd` positions", None)
    label_initializer: str | None = _field(
        "gsp: first label embeddings, `he_normal` (default) or `he_normal_over_proxies` (over the classes)", None
    )
    input_mean: str | None = _field(
        "bn_inception: mean of its input, `caffe` (104, 117, 128; default) or `imagenet` (103.5, 116.3, 123.7)", None
    )
    evaluation_antialias: bool | None = _field("files: low-pass filter of the evaluation's crop (default: yes)", None)
    selection_start: int | None = _field(
        "update steps whose validations are not selected from: till a memory or proxies are on (default: none)", None
    )
    warm_up_trains_all: bool | None = _field("warm-up of the whole network, not of head and losses alone", None)
    frozen_backbone: bool | None = _field("train the head and the loss alone (default: everything)", None)
    trained_from: str | None = _field(
        "train what lies above a cut: `head`, or the first layer, block or stage of the backbone that is trained (a "
        "wrong name lists them); below, batch normalisation is in inference mode (default: everything is trained)",
        None,
    )
    cached_features: bool | None = _field(
        "trained_from: compute the features below the cut once for every view, keep them in float16 in --cache_dir "
        "(checked for room first) and train from there; no: at every step (default: yes)",
        None,
    )
    views: int | None = _field(
        "seeded crops and flips of each training image, which are all that training sees of it (default: every draw is "
        "a new one; with cached features 4, or 1 with --crop=none)",
        None,
    )
    sampler: str | None = _field(
        "batches: `rounds` (all classes in turn; default), `m_per_class` (these, interleaved as in the published "
        "code), `spc` (random classes) or `spc_r` (any images, with a pair)",
        None,
    )
    seed: int = _field("seed of weights, batches and augmentation; fold and repeat are mixed in", 0)
    protocol: str | None = _field("`conventional`, `held_out` beside it, or `final`; none: the fair protocol", None)
    held_out_fraction: float | None = _field("held_out: share of the training classes kept back to stop on", None)

    def __post_init__(self):
        for name in RANGES:
            check_number(name, getattr(self, name))
        if bool(self.clip_norm) != bool(self.clip_value):
            raise InvalidInput("--clip_norm and --clip_value are given together, or both are 0.")
        if (self.selection_start or 0) >= self.max_steps:
            raise InvalidInput(
                f"--selection_start={self.selection_start} leaves nothing to select in --max_steps={self.max_steps}: "
                "give less of the one or more of the other."
            )
        check_cut(self)
        check_choice("--fold_order", self.fold_order, ("forward", "backward"))
        if self.pair_reduction is not None:
            check_choice("--pair_reduction", self.pair_reduction, ("sum", "mean_of_active"))
        if self.ccp_max_failures and not self.ccp_goes_back:
            raise InvalidInput(
                f"--ccp_max_failures={self.ccp_max_failures} counts problems that went back, and without "
                "--ccp_goes_back none does: give --ccp_goes_back, too, or --ccp_max_failures=0."
            )
        if self.protocol is not None:
            check_choice("protocol", self.protocol, (*CONVENTIONAL_PROTOCOLS, FINAL))

    @property
    def batch_size(self) -> int:
        """Images in a batch."""
        return self.classes_per_batch * self.samples_per_class

    @property
    def monitor(self) -> str:
        """The validation metric that decides: R@1 in the conventional protocol (the same as P@1), else MAP@R."""
        return "P@1" if self.protocol in CONVENTIONAL_PROTOCOLS else "MAP@R"

    @property
    def name(self) -> str:
        """The method's name in tables and folders: loss, `ccp`, pooling."""
        return "+".join([self.loss, *(["ccp"] if self.method == "ccp" else []), self.pooling])

    def as_dict(self) -> dict:
        """JSON values of all fields that are set."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    def identity(self, data_fingerprint: str) -> dict:
        """What decides the outcome, as JSON values: the fields, the data, and a weights file by its content.

        `weights_source` is the SHA-256 of the published file that a weights file was made from, where it says.
        """
        identity = {**self.as_dict(), "data": data_fingerprint}
        if is_file(self.weights):
            file = weights_file(self.weights)
            identity["weights"] = file.digest
            if file.source_sha256:
                identity["weights_source"] = file.source_sha256
        return identity

    def hash(self, data_fingerprint: str) -> str:
        """Ten hexadecimal digits that differ whenever the configuration or the data differ."""
        text = json.dumps(self.identity(data_fingerprint), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def config_fields() -> tuple[dataclasses.Field, ...]:
    """The fields of `ExperimentConfig`, in order; each becomes a flag."""
    return dataclasses.fields(ExperimentConfig)
