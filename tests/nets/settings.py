"""Hashes, refusals and explained values of command lines, without TensorFlow: one digest a block.

A case is a command line, so that it outlives changes of the modules behind the flags; `outcome` alone
knows how words become configurations. Names are listed here, not read from the code, so that a new one changes nothing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import itertools
import json
import pathlib
import re
import sys
import tempfile
from collections.abc import Iterator

from absl import flags
from absl.testing import flagsaver
from PIL import Image

from common.errors import InvalidInput
from experiments.recipes.words import configurations_from_flags
from experiments.settings import flags as experiment_flags
from experiments.settings.config import ExperimentConfig, by_flag_names, identity_digest
from experiments.settings.parts import all_settings

ROOT = pathlib.Path(__file__).parents[2]
DATA = "0123456789abcdef"  # in place of a data set's fingerprint

PHOTOGRAPHS = ("cub200", "cars196", "sop", "inshop")
DATASETS = (*PHOTOGRAPHS, "glyphs", "emoji", "cifar100", "folder", "manifest", "synthetic_tokens")
OTHER_DATASETS = (
    *("emoji_clutter_48", "glyph_scripts", "glyph_collage", "glyph_collage_distilled", "cifar10", "cifar10_seen"),
    *("cifar10_unseen", "cifar100_unseen", "cifar_collage", "cifar_collage_published_code_distilled"),
    *("cifar10_collage", "cifar10_collage_distilled"),
)
RECIPES = ("thesis", "published_code", "revisiting")
BUDGETS = ("full", "demo", "smoke")
PROTOCOLS = (None, "conventional", None, "held_out", None)
PAIR_LOSSES = (
    *("c1", "c2", "triplet", "ms", "margin", "npair", "lifted", "lifted_generalized", "quadruplet", "angular"),
    *("histogram", "snr", "snr_triplet", "circle", "supcon", "smoothap", "roadmap", "recall_at_k", "pnp", "fastap"),
    "hyperbolic",
)
PROXY_LOSSES = ("pnca", "panchor", "softtriple", "normsoftmax", "arcface", "cosface")
COMPOSED = (
    *("c1+xbm", "c2+xbm", "triplet+xbm", "ms+xbm", "margin+distance", "margin+pads", "triplet+pads", "ms+s2sd"),
    *("triplet+semihard", "triplet+softhard+rho", "margin+distance+rho", "c2+multisimilarity", "ms+xbm+s2sd"),
    *("margin+distance+shared", "margin+distance+shared+intra+dance", "margin+groups", "ms+heads", "pnca+heads"),
    *("pnca+s2sd", "normsoftmax+shared+dance", "triplet+batchhard+intra", "margin+pads+shared", "ms+groups+intra"),
)
LOSSES = (*PAIR_LOSSES, *PROXY_LOSSES, *COMPOSED)
POOLINGS = (
    *("gap", "gsp", "gmp", "cls", "gap+gmp", "cbam", "crow", "delf", "gemax", "gemean", "gsop", "otp_8x16"),
    *("otp_64x128", "solar", "tsmk", "netvlad_8x16", "netvlad_64x128", "weldon", "gmp+gsp", "gemean+gsp"),
)
# Methods on which flags are tried: a flag that needs another has it here.
BASES = (
    *(f"--dataset=cub200 --methods={method}" for method in ("ms+ccp+gsp", "c2+xbm+gap", "ms+s2sd+gap")),
    *(f"--dataset=cub200 --recipe=revisiting --methods={method}+gap" for method in ("margin+pads", "ms+heads")),
    "--dataset=cars196 --recipe=revisiting --methods=margin+distance+rho+shared+intra+dance+gap",
    "--dataset=sop --recipe=revisiting --methods=margin+distance+groups+intra+gap",
    "--dataset=glyphs --budget=demo --methods=pnca+gmp+gsp --warm_up_steps=20",
    "--dataset=folder --backbone=vit_small_16 --weights=none --methods=panchor+cls --lora_rank=2",
    "--dataset=folder --backbone=vit_small_16 --weights=none --methods=panchor+cls --num_prompts=2",
    "--dataset=manifest --trained_from=head --methods=softtriple+gap",
    "--dataset=inshop --protocol=held_out --methods=triplet+gap",
    "--dataset=cub200 --methods=ms+gap --hier_weight=0.5 --tcm_weight=0.5 --max_steps=100",
    "--dataset=cub200 --methods=ms+gap --sampler=superclasses --strategy=mirrored --replicas=2",
    "--dataset=cub200 --methods=ms+gap --rate_drop_factor=0.5 --clip_value=1 --max_steps=100",
    "--dataset=cub200 --methods=ms+gap --rate_drop_step=50 --clip_norm=1 --max_steps=100",
    "--dataset=cub200 --methods=ms+gap --calibration_weight=0.5 --plateau_patience=0",
    *(f"--dataset=cub200 --recipe=revisiting --methods={loss}+gap" for loss in LOSSES),
)
NUMBERS = (
    "3",
    "0.3",
    "-1",
    "0",
    "1",
    "7.5",
    "nonsense",
    "true",
)  # values of each flag, beside the words of its refusal
MALFORMED = (
    *(f"--methods={name}" for name in ("", "c2", "c2+gap,c2+gap", "c2+ccp", "nonsense+gap", "c2+nonsense")),
    *(f"--loss={name}" for name in ("nonsense", "c2+nonsense", "", "c2,c2", "pnca+xbm", "ms+rho", "xbm+c2")),
    *(f"--{name}=nonsense" for name in ("dataset", "pooling", "method", "recipe", "budget", "chapter", "no_flag")),
    "--methods=c2+gap --loss=c2",
    "--dataset=cub200 --train_fraction=0.5",
    "--dataset=glyphs --data_dir=somewhere",
    "--dataset=nonsense --budget=nonsense --pooling=nonsense --seed=-1 --loss=nonsense",
    "--dataset=cub200 --learning_rate_schedule=cosine",
    "--dataset=cub200 --learning_rate_schedule=cosine --max_steps=100 --plateau_patience=3",
    "--dataset=cub200 --clip_norm=1",
    "--dataset=cub200 --trained_from=head --frozen_backbone",
    "--dataset=cub200 --backbone=nonsense",
    "--dataset=cub200 --weights=/no/such/file.npz",
    "--recipe=/no/such/recipe.json",
)
# Tried in pairs, for settings that exclude or need each other, or fit together alone in some sizes.
PAIRED = (
    "budget=smoke views=2 views=1 crop=none crop=jittered trained_from=head cached_features nocached_features "
    "micro_batch=4 backbone=resnet50 backbone=vit_small_16 frozen_backbone nofrozen_batch_norm lora_rank=2 "
    "lora_norms num_prompts=2 prompt_blocks=first layer_decay=0.7 learning_rate_schedule=cosine max_steps=90 "
    "plateau_patience=2 plateau_patience=0 rate_drop_step=90 rate_drop_factor=0.5 selection_start=90 "
    "strategy=mirrored replicas=2 precision=mixed_float16 fold_batch_norm jit_compile matryoshka=32,64 "
    "sampler=superclasses sampler=coreset sampler=m_per_class sampler=spc_r classes_per_batch=9 "
    "samples_per_class=1 normalization=clip head_start=pca ema_decay=0.9 optimizer=adamw weight_decay=0 "
    "clip_norm=1 clip_value=1 image_noise=1 feature_noise=1 output_stride=16 weights=none image_size=30"
)
PAIRED_ON = (
    "ms+gap",
    "pnca+gsp",
    "ms+ccp+gap",
    "margin+pads+gap",
    "margin+groups+gap",
    "ms+s2sd+gap",
    "hyperbolic+gap",
)
OF_FOLDERS = (  # the number of classes limits folds and batches
    *("", " --classes_per_batch=9", " --num_folds=2 --classes_per_batch=4", " --num_folds=3", " --train_fraction=0.9"),
)


def blocks() -> Iterator[tuple[str, list[str]]]:
    """Yield each block's name and command lines, except those of single flags."""
    for dataset, recipe in itertools.product((*DATASETS, *OTHER_DATASETS), RECIPES):
        step = 1 if dataset in DATASETS else 4
        start = RECIPES.index(recipe) if step > 1 else 0
        turns = itertools.count(sum(dataset.encode()) + RECIPES.index(recipe))
        pairs = itertools.product(LOSSES, ("plain", "ccp", "plain"))
        cases = [_case(dataset, loss, recipe, next(turns), method) for loss, method in pairs]
        yield f"losses/{dataset}/{recipe}", cases[start::step]
        yield f"explain/{dataset}/{recipe}", [f"{case} --explain" for case in cases[start :: 13 * step]]
    for number, pooling in enumerate(POOLINGS):
        turns = itertools.count(number)
        methods = itertools.product(("cub200", "sop", "glyphs", "emoji", "folder"), ("c2", "pnca", "ms+xbm"), RECIPES)
        yield f"poolings/{pooling}", [_case(*each, next(turns), "plain", pooling) for each in methods]
    yield "malformed", [*MALFORMED]
    for base in ("ms", "margin", "pnca"):
        yield f"names/{base}", [f"--methods={name}" for name in _names(base)]
    for number, method in enumerate(PAIRED_ON):
        pairs = [*itertools.combinations(PAIRED.split(), 2)][number % 2 :: 2 if number else 1]  # all on the first
        yield f"pairs/{method}", [f"--dataset=cub200 --methods={method} --{one} --{other}" for one, other in pairs]
    for classes, protocol in itertools.product((2, 4, 9, 12), ("", " --protocol=held_out", " --protocol=conventional")):
        words = f"--dataset=folder --methods=c2+gap --weights=none --data_dir=FOLDER{classes}"
        yield f"folder/{classes}{protocol}", [f"{words}{more}{protocol}" for more in OF_FOLDERS]


def _case(dataset: str, loss: str, recipe: str, turn: int, method: str, pooling: str | None = None) -> str:
    """Return a method's words; what is left open takes its values in turn, in periods without common factors."""
    words = [f"--dataset={dataset}", f"--loss={loss}", f"--recipe={recipe}", f"--method={method}"]
    words += [f"--pooling={pooling or POOLINGS[turn % 2 if turn % 3 else turn % 23 % 20]}"]
    words += [f"--budget={BUDGETS[turn % 5 % 3]}"]
    words += [f"--chapter={3 + 2 * (turn % 2)}"] if turn % 7 < 5 else []
    protocol = PROTOCOLS[turn % 11 % 5]
    return " ".join([*words, *([f"--protocol={protocol}"] if protocol else [])])


def _names(base: str) -> Iterator[str]:
    miners = ("", "random", "semihard", "distance", "pads", "multisimilarity")
    features = ("", "heads", "shared", "groups", "shared+intra", "intra+dance", "shared+groups", "dance+intra")
    words = itertools.product(miners, ("", "rho"), ("", "xbm"), ("", "s2sd"), features, ("", "ccp"))
    for each in itertools.islice(words, None, None, 5):
        yield "+".join(word for word in (base, *each, "gap") if word)


def outcome(case: str) -> str:
    """Return the hashes of a command line's configurations, its printed text, or its refusal; needs defined flags."""
    protocol = re.search(r"--protocol=(\S+)", case)
    words = re.sub(r"--protocol=\S+", "", case)
    if "FOLDER" not in case:
        words += " --report_only"  # no data are read
    words = re.sub(r"FOLDER(\d+)", lambda found: str(_folder(int(found[1]))), words)
    printed = io.StringIO()
    try:
        with flagsaver.flagsaver(), contextlib.redirect_stdout(printed):
            flags.FLAGS(["command", *words.split()])
            configs = configurations_from_flags(flags.FLAGS, protocol[1] if protocol else None)
            found = " ".join(f"{config.name} {config.hash(DATA)}" for config in configs)
    except (InvalidInput, flags.Error) as error:
        found = f"refused: {error}"
    except SystemExit:
        found = printed.getvalue()
    return re.sub(r"[^\s'\"]*/photos\d+", "PHOTOS", found)


@functools.lru_cache
def _folder(classes: int) -> pathlib.Path:
    """Write a folder of tiny images, four in each class."""
    root = pathlib.Path(tempfile.mkdtemp()) / f"photos{classes}"
    for label, number in itertools.product(range(classes), range(4)):
        path = root / f"class{label:02d}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (label * 20, number * 60, 128)).save(path)
    return root


def trial(flag: str) -> list[str]:
    """Return a method that takes a flag, if any, and values to try there, the first of them also elsewhere."""
    offered = outcome(f"{BASES[0]} --{flag}=nonsense").partition("expected one of ")[2].rstrip(".").split(", ")
    values = [*(word for word in offered[:4] if word), *NUMBERS]
    found = itertools.product(BASES, values)
    accepted = ((base, value) for base, value in found if "refused" not in outcome(f"{base} --{flag}={value}"))
    base, taken = next(accepted, (BASES[0], values[0]))
    return [base, taken, *(value for value in values if value != taken)]


def _of_flag(flag: str, base: str, *values: str) -> list[str]:
    """Return the command lines of a `trial`."""
    return [f"{base} --{flag}={value}" for value in values] + [f"{each} --{flag}={values[0]}" for each in BASES[:17]]


def _recorded_lines(path: pathlib.Path) -> Iterator[str]:
    """Yield whether recorded configurations are read and stored as they were, and their rows have their hashes."""
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row["kind"] != "training":
            continue
        digest = identity_digest({**row["configuration"], "data": row["data"]})[:10]
        stored = {key: row["configuration"][key] for key in row["configuration"].keys() - {"weights_source", "preset"}}
        try:
            read = _stored_again(json.dumps(stored, sort_keys=True))
        except InvalidInput as error:
            read = f"refused: {error}"
        yield f"{row['label']} {row['config_hash']} {digest == row['config_hash']} {read}"


@functools.lru_cache
def _stored_again(stored: str) -> str:
    values = json.loads(stored)
    kept = ExperimentConfig.of(by_flag_names(values)).stored()
    return str(sorted(key for key in kept.keys() | values.keys() if kept.get(key) != values.get(key)))


def lines(trials: dict[str, list[str]] | None = None) -> Iterator[tuple[str, list[str]]]:
    """Yield each block's name and its lines, one a case; `trials` are of `all_trials`."""
    define_flags()
    for name, cases in blocks():
        yield name, [f"{case}: {outcome(case)}" for case in cases]
    for name, tried in (trials or all_trials()).items():
        yield f"flags/{name}", [f"{case}: {outcome(case)}" for case in _of_flag(name, *tried)]
    for path in sorted(ROOT.glob("docs/results/rows/*/rows.jsonl")):
        yield f"recorded/{path.parent.name}", [*_recorded_lines(path)]
    if "tensorflow" in sys.modules:
        raise AssertionError("Flags became configurations with an import of TensorFlow, which takes seconds.")


def define_flags() -> None:
    """Define the flags of `experiments.fair_eval`, once."""
    if "loss" not in flags.FLAGS:
        experiment_flags.define_experiment_flags()
        experiment_flags.define_run_flags()
        experiment_flags.define(*experiment_flags.METHODS_FLAGS)


def all_trials() -> dict[str, list[str]]:
    """Return the `trial` of each present setting that is a flag of its own."""
    define_flags()
    chosen = {"dataset", "loss", "pooling", "method", "recipe", "budget", "protocol"}
    return {name: trial(name) for name in sorted({each.name for each in all_settings()} - chosen)}


def digest(block: list[str]) -> str:
    """Return the first 16 digits of the SHA-256 of a block's lines; runs of white space count as one."""
    return hashlib.sha256("\n".join(" ".join(line.split()) for line in block).encode()).hexdigest()[:16]
