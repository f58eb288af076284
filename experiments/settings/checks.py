"""Checks of a configuration's settings against each other, before construction."""

from __future__ import annotations

from collections.abc import Iterator

from common.backbones.initial_weights import A_TRANSFORMER, may_be_transformer
from common.backbones.network_names import ALL_BLOCKS, HEAD, TRANSFORMERS
from common.data.memory_batches import CRITERIA
from common.errors import InvalidInput, invalid
from experiments.parts.registry import LOSSES, part_of
from experiments.settings.method_names import DANCE, GROUPS, HEADS, INTRA, PADS, S2SD, SHARED, LossName
from experiments.settings.methods.features import IN_TURN, FeatureSettings, SharedSettings, TurnSettings
from experiments.settings.methods.gsp import ZeroShotSettings
from experiments.settings.run_settings import COSINE, SUPERCLASSES, RunSettings

_WITH_BLOCKS = f"a transformer: {A_TRANSFORMER}, or one of a plug-in"
_IMAGES_OF_INTRA = 3  # an anchor, a positive and a negative of one class


def check_method(name: LossName, method: str) -> None:
    """Raise `InvalidInput` if a loss does not support `--method`."""
    if method == "ccp" and name.miner == PADS:
        raise InvalidInput(
            f"Invalid --loss with --method=ccp: received {name.base}+{PADS}, whose policy adapts which negatives of a "
            "batch are drawn. Expected a loss without a miner: CCP compares with proxies, draws nothing, and goes back "
            "to earlier weights, so to an earlier distribution. Remove one of the two."
        )
    if method == "ccp" and name.distilled:
        expected = f"a loss without {S2SD}: CCP's proxies are those of one embedding"
        raise invalid("--loss with --method=ccp", received=f"{name.base}+{S2SD}", expected=expected)


def conflicts(run: RunSettings) -> Iterator[InvalidInput]:
    """Yield the conflicts between settings."""
    if bool(run.clip_norm) != bool(run.clip_value):
        yield InvalidInput("--clip_norm and --clip_value are given together, or both are 0.")
    if (run.selection_start or 0) >= run.max_steps:
        yield InvalidInput(
            f"--selection_start={run.selection_start} leaves nothing to select in --max_steps={run.max_steps}: "
            "give less of the one or more of the other."
        )
    yield from _of_cut(run)
    yield from _of_trained_parts(run)
    yield from _of_rates(run)
    yield from _of_devices(run)
    name = run.loss
    check_method(name, run.method)
    if run.method == "ccp" and run.sampler in CRITERIA:
        fix = "CCP goes back to earlier weights in the middle of what its batches were chosen for."
        yield invalid("--sampler", received=run.sampler, expected="one of labels alone with --method=ccp", fix=fix)
    if run.sampler == SUPERCLASSES and run.classes_per_batch % run.superclasses_per_batch:
        expected = f"a divisor of --classes_per_batch={run.classes_per_batch}"
        yield invalid("--superclasses_per_batch", received=run.superclasses_per_batch, expected=expected)
    yield from _of_miner_and_features(run, name)
    loss = LOSSES.get(name.base)
    if loss and loss.on_sphere and run.normalization != "unit":
        fix = "Searches and figures compare by cosine or Euclidean distance, which order such embeddings alike alone."
        expected = f"unit with --loss={name.base}: points on one sphere around the origin"
        yield invalid("--normalization", received=run.normalization, expected=expected, fix=fix)
    if run.prefix_lengths and (name.features or name.miner == PADS or name.distilled):
        what = "several features, which are slices themselves" if name.features else "pads, one policy for one length"
        what = "larger embeddings, which teach the whole one" if name.distilled else what
        yield InvalidInput(f"--matryoshka={run.matryoshka} does not go with {run.loss}: {what}. Remove one of the two.")


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
    return may_be_transformer(backbone) or part_of("backbone", backbone) is not None


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


def _of_miner_and_features(run: RunSettings, name: LossName) -> Iterator[InvalidInput]:
    """Yield conflicts of the miner `pads` and of several features."""
    if name.miner == PADS and run.replicas:
        yield _on_one_device("the miner pads: its policy works on one device")
    if name.miner == PADS and run.left_out_images is not None:
        yield InvalidInput(
            "--left_out_images does not go with the miner pads, which holds images back by itself (--pads_images). "
            "Remove it."
        )
    if HEADS in name.features and run.method == "ccp":
        yield InvalidInput(
            f"--method=ccp does not go with {run.loss}: one head has the proxies. Remove one of the two."
        )
    shared = run.find(SharedSettings)
    count = 1 if shared and shared.single_encoder else (4 if HEADS in name.features else 1 + len(name.features))
    if name.features and run.embedding_dim < count:
        yield InvalidInput(
            f"Invalid --embedding_dim: received {run.embedding_dim} for the {count} features of {run.loss}, "
            f"expected {count} or more: it is the total, which they share. Give more."
        )
    if name.may_take_turns and run.part(TurnSettings).feature_schedule == IN_TURN:
        yield from _of_turns(run, name)
    if shared:
        yield from _of_shared(run, name, shared)
    if GROUPS in name.features and run.replicas:
        yield _on_one_device(f"{run.loss}, whose groups are found on one device")
    if INTRA in name.features:
        yield from _of_intra(run, name)
    if DANCE in name.features:
        yield from _of_dance(run)


def _on_one_device(what: str) -> InvalidInput:
    return InvalidInput(f"--strategy=mirrored does not go with {what}. Remove --strategy and --replicas.")


def _of_turns(run: RunSettings, name: LossName) -> Iterator[InvalidInput]:
    if len(name.features) > 1:
        yield InvalidInput(
            f"Invalid --feature_schedule: received in_turn with {run.loss}, expected joint: turns are for `shared` "
            "or `groups` as the only other feature (algorithm 1). Give --feature_schedule=joint."
        )
    if run.method == "ccp":
        yield InvalidInput(
            "--method=ccp with --feature_schedule=in_turn would count each problem's validations over steps of "
            "another task. Give --feature_schedule=joint."
        )
    if run.jit_compile:
        yield InvalidInput(
            "--jit_compile cannot compile losses that take turns. Remove it, or give --feature_schedule=joint."
        )


def _of_shared(run: RunSettings, name: LossName, shared: SharedSettings) -> Iterator[InvalidInput]:
    decorrelation = run.part(FeatureSettings).decorrelation
    if shared.single_encoder and (name.features != (SHARED,) or decorrelation):
        yield InvalidInput(
            f"--single_encoder puts both tasks on all components, and received {run.loss} with "
            f"--decorrelation={decorrelation}. Expected `shared` as the only other feature and "
            "--decorrelation=0: one feature has nothing to be decorrelated from."
        )
    if shared.miner is None:
        yield InvalidInput(
            f"--shared_negatives={shared.shared_negatives} with --shared_positives={shared.shared_positives} is not "
            "drawn here. Expected one of them at its default: --shared_negatives=distance or "
            "--shared_positives=uniform."
        )
    if name.base == "triplet" and shared.shared_negatives == "random":
        yield InvalidInput(
            "--shared_negatives=random over the triplet loss has no gradient where distances differ by less than the "
            "margin, and elsewhere only makes them alike: positive and negative are drawn in the same way. Give "
            "--shared_negatives=distance or semi_hard, or the margin loss."
        )


def _of_intra(run: RunSettings, name: LossName) -> Iterator[InvalidInput]:
    if name.base == "triplet":
        yield InvalidInput(
            f"{run.loss}: `intra` over the triplet loss only makes the distances within a class alike, for positive "
            "and negative are drawn in the same way. Expected the margin loss (margin+distance+intra), whose boundary "
            "keeps them apart."
        )
    if run.samples_per_class < _IMAGES_OF_INTRA or run.sampler == "spc_r":
        yield InvalidInput(
            f"{run.loss}: `intra` draws triplets within a class, and received "
            f"--samples_per_class={run.samples_per_class} with --sampler={run.sampler}. Expected three or more "
            "images of each class in a batch: give --samples_per_class=4."
        )


def _of_dance(run: RunSettings) -> Iterator[InvalidInput]:
    if run.replicas:
        yield _on_one_device(f"{run.loss}: it would divide each batch between the first and the second views")
    if run.crop == "none" or run.views == 1:
        given = "--crop=none" if run.crop == "none" else "--views=1"
        yield InvalidInput(
            f"{run.loss} compares two views of each image, which {given} makes alike. Expected an augmentation "
            "(--crop) and, with --views or --cached_features, two views or more."
        )
    zero_shot = run.find(ZeroShotSettings)
    if zero_shot and zero_shot.zero_shot_weight:
        yield InvalidInput(
            f"{run.loss} with --zero_shot_weight={zero_shot.zero_shot_weight}: the zero-shot prediction loss is over "
            "the attributes of one view. Give --zero_shot_weight=0."
        )
