"""Checks of the settings of every run against each other; methods check theirs."""

from __future__ import annotations

from collections.abc import Iterator

from common.backbones.initial_weights import A_TRANSFORMER, may_be_transformer
from common.backbones.network_names import ALL_BLOCKS, CHANNELS, HEAD, TRANSFORMERS
from common.errors import InvalidInput, invalid
from experiments.parts.registry import LOSSES, POOLINGS, TABLES
from experiments.settings.run_settings import COSINE, IDENTITY_START, RunSettings

_WITH_BLOCKS = f"a transformer: {A_TRANSFORMER}, or one of a plug-in"


def conflicts(run: RunSettings) -> Iterator[InvalidInput]:
    """Yield the conflicts between settings, those of the methods included."""
    methods = run.methods  # each is made, and checks its own settings
    if bool(run.clip_norm) != bool(run.clip_value):
        yield InvalidInput("--clip_norm and --clip_value are given together, or both are 0.")
    if (run.selection_start or 0) >= run.max_steps:
        yield InvalidInput(
            f"--selection_start={run.selection_start} leaves nothing to select in --max_steps={run.max_steps}: "
            "give less of the one or more of the other."
        )
    channels = CHANNELS.get(run.backbone, run.embedding_dim)
    if run.head_start == IDENTITY_START and channels != run.embedding_dim and POOLINGS[run.pooling].vectors == 1:
        yield identity_misfit(run.embedding_dim, channels)
    if run.start_from is not None and run.cached_features:
        fix = "Give --nocached_features, or --trained_from=everything."
        received = f"{run.start_from} with --cached_features"
        yield invalid("--start_from", received=received, expected="features of the network in training", fix=fix)
    yield from _of_cut(run)
    yield from _of_trained_parts(run)
    yield from _of_rates(run)
    yield from _of_devices(run)
    if run.sampler_part.of_superclasses and run.classes_per_batch % run.superclasses_per_batch:
        expected = f"a divisor of --classes_per_batch={run.classes_per_batch}"
        yield invalid("--superclasses_per_batch", received=run.superclasses_per_batch, expected=expected)
    for method in methods:
        yield from method.conflicts(run)
    loss = LOSSES.get(run.loss.base)
    if loss and loss.on_sphere and run.normalization != "unit":
        fix = "Searches and figures compare by cosine or Euclidean distance, which order such embeddings alike alone."
        expected = f"unit with --loss={run.loss.base}: points on one sphere around the origin"
        yield invalid("--normalization", received=run.normalization, expected=expected, fix=fix)


def identity_misfit(dim: int, channels: int) -> InvalidInput:
    """Refuse an embedding whose size is not that of the pooled features."""
    fix = f"Give --embedding_dim={channels}, or --head_start=pca for shorter embeddings."
    expected = f"{channels}, the channels of the pooled features"
    return invalid("--embedding_dim with --head_start=identity", received=dim, expected=expected, fix=fix)


def _of_cut(run: RunSettings) -> Iterator[InvalidInput]:
    """Yield conflicts of cut, views and cache."""
    if run.trained_from is not None and run.backbone == "token_embedding":
        yield InvalidInput(
            "--trained_from cuts a network in two, but --backbone=token_embedding is one table that is trained as a "
            "whole. Remove it."
        )
    if run.cached_features and run.trained_from is None:
        yield InvalidInput("--cached_features are those below a cut: say where, such as --trained_from=head.")
    if run.cached_features and run.views is None:
        yield InvalidInput("--cached_features need a number of --views of each training image.")
    if (run.views or 1) > 1 and run.crop == "none":
        yield InvalidInput(
            f"--views={run.views} would all be the same image, because --crop=none changes nothing. Remove it."
        )


def _of_trained_parts(run: RunSettings) -> Iterator[InvalidInput]:
    """Yield conflicts of low-rank updates and prompts with other settings."""
    if run.lora_norms and run.lora_rank is None:
        yield InvalidInput("--lora_norms would have no effect without --lora_rank. Give both, or remove it.")
    if run.prompt_blocks != ALL_BLOCKS and run.num_prompts is None:
        yield InvalidInput("--prompt_blocks would have no effect without --num_prompts. Give both, or remove it.")
    if run.lora_rank is not None and not _may_have_blocks(run.backbone):
        received = f"{run.lora_rank} for --backbone={run.backbone}"
        yield invalid("--lora_rank", received=received, expected=_WITH_BLOCKS)
    if run.num_prompts is not None and run.backbone not in TRANSFORMERS:
        received, expected = f"{run.num_prompts} for --backbone={run.backbone}", f"one of {', '.join(TRANSFORMERS)}"
        yield invalid("--num_prompts", received=received, expected=expected)
    choices = ("trained_from", "lora_rank", "num_prompts", "frozen_backbone")
    given = [f"--{name}" for name in choices if getattr(run, name) not in (None, False)]
    if len(given) > 1:
        yield InvalidInput(f"{' and '.join(given)} say what is trained, each something else. Give one of them.")


def _may_have_blocks(backbone: str) -> bool:
    """Return whether a network may be a transformer, as presets and plug-ins may."""
    return may_be_transformer(backbone) or backbone in TABLES["backbone"]


def _of_rates(run: RunSettings) -> Iterator[InvalidInput]:
    """Yield conflicts of backbone, rates and schedule."""
    cosine = "--learning_rate_schedule=cosine" if run.learning_rate_schedule == COSINE else None
    if cosine and run.plateau_patience:
        yield InvalidInput(
            f"--plateau_patience={run.plateau_patience} beside {cosine} sets the learning rate twice. Remove one of "
            "them."
        )
    step, factor = run.rate_drop_step, run.rate_drop_factor
    if (step is None) != (factor is None):
        yield InvalidInput(
            f"--rate_drop_step={step} and --rate_drop_factor={factor}: when the rate drops and how far are given "
            "together, or neither."
        )
    if step is not None and (cosine or run.plateau_patience):
        yield InvalidInput(
            f"--rate_drop_step={step} beside {cosine or '--plateau_patience'} sets the learning rate twice. Remove one "
            "of them."
        )
    if step is not None and step >= run.max_steps:
        yield InvalidInput(
            f"--rate_drop_step={step} would have no effect in --max_steps={run.max_steps}. Give less of the one or "
            "more of the other."
        )
    if run.layer_decay is not None and not _may_have_blocks(run.backbone):
        received = f"{run.layer_decay} for --backbone={run.backbone}"
        yield invalid("--layer_decay", received=received, expected=_WITH_BLOCKS)
    if run.layer_decay is not None and (run.frozen_backbone or run.trained_from == HEAD):
        yield InvalidInput("--layer_decay would have no effect on a backbone that is not trained. Remove it.")


def _of_devices(run: RunSettings) -> Iterator[InvalidInput]:
    """Yield conflicts of devices, precision and folded batch normalisation."""
    mirrored, whole = run.strategy != "none", run.trained_from == HEAD and run.cached_features
    if not mirrored and run.replicas is not None:
        yield invalid("--replicas", received=run.replicas, expected="none without --strategy=mirrored")
    if run.precision != "float32" and run.trained_from is not None:
        fix = "Features below the cut are computed once, in float32."
        yield invalid("--precision", received=run.precision, expected="float32 with --trained_from", fix=fix)
    if run.fold_batch_norm and not (run.frozen_batch_norm or run.frozen_backbone):
        fix = "One that trains computes statistics of each batch. Give --frozen_batch_norm, too."
        yield invalid("--fold_batch_norm", received=True, expected="batch normalisation that is frozen", fix=fix)
    if run.micro_batch and (whole or run.frozen_backbone):
        expected = "none without training of the backbone, whose maps are not kept"
        yield invalid("--micro_batch", received=run.micro_batch, expected=expected)
    if run.micro_batch and run.jit_compile:
        yield invalid("--micro_batch", received=run.micro_batch, expected="none with --jit_compile")
    if run.fold_batch_norm and whole:
        expected = "off with cached features of the whole backbone, which is computed once"
        yield invalid("--fold_batch_norm", received=True, expected=expected)
    for flag, received, is_wrong, expected in (
        ("--replicas", run.replicas, run.replicas is None, "2 or more"),
        ("--precision", run.precision, run.precision != "float32", "float32"),
        ("--jit_compile", True, run.jit_compile, "no XLA"),
        ("--trained_from", run.trained_from, run.trained_from, "training of the whole network"),
    ):
        if mirrored and is_wrong:
            yield invalid(flag, received=received, expected=f"{expected} with --strategy=mirrored")
    if mirrored and run.batch_size % (run.replicas or 1):
        yield invalid(
            "--replicas", received=run.replicas, expected=f"a divisor of the batch of {run.batch_size} images"
        )
