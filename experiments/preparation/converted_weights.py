"""Conversion of published parameters (checkpoints or `.npz`) for `--weights`."""

from __future__ import annotations

import os

from common import backbones
from common.downloads import Fingerprint, SourceFile, fetch, file_digest
from common.errors import InvalidInput, check_choice, invalid
from common.files import check_output_file

BACKBONES: dict[str, dict[str, str]] = {  # the arguments of each, of `common.backbones`
    "bn_inception": {},
    "efficientnet_lite0": {},
    "mobilenet_v2": {},
    "resnet50": {"layout": "torchvision"},
    "vit_base_16": {},
    "vit_small_16": {},
}


def fetch_checkpoint(backbone: str, folder: str, mirror: str | None = None) -> str:
    """Return the path of a network's published checkpoint, fetched unless it exists.

    `mirror` is the address of a folder with the file, tried first.
    """
    checkpoints = backbones.checkpoints_of(backbone)
    if not checkpoints:
        raise InvalidInput(f"No published checkpoint of {backbone} is known here. Give a file: --input=FILE.")
    checkpoint = checkpoints[0]
    published = Fingerprint(sha256=checkpoint.digest_prefix)
    try:
        fetch(SourceFile(checkpoint.name, checkpoint.name, (checkpoint.url,), published), folder or ".", mirror)
    except InvalidInput as error:
        raise InvalidInput(
            f"{error} Or get {checkpoint.name} from anywhere else (its SHA-256 starts with "
            f"{checkpoint.digest_prefix}), and give --input={checkpoint.name}; or name another server: --mirror."
        ) from error
    return os.path.join(folder, checkpoint.name)


def describe_source(backbone: str, sha256: str) -> str:
    """Describe the file with this SHA-256 in words."""
    checkpoint = backbones.published_checkpoint(backbone, sha256)
    if checkpoint is None:
        return f"a file that is no published ImageNet checkpoint of {backbone} known here (SHA-256 {sha256})"
    return f"{checkpoint.title}: {checkpoint.name} (SHA-256 {sha256})"


def convert(backbone: str, source: str, output: str, ignore: tuple[str, ...] = ()) -> backbones.LoadedParameters:
    """Write the parameters of `backbone` in `source` to `output`.

    The output records the SHA-256 of `source`; if `source` is an `.npz` with such a record, that is copied.

    Args:
        source: a checkpoint of PyTorch or safetensors, or an `.npz` file with PyTorch's names.
        ignore: prefixes of names in the file that belong to no backbone (a head other than the usual classifier).

    Returns:
        The names written, and those in the file that were left over.

    Raises:
        InvalidInput: an unknown backbone; a file that cannot be read safely; missing names, or shapes that do not fit.
    """
    check_choice("--backbone", backbone, BACKBONES)
    check_output(output)
    is_ours = source.endswith(".npz")
    if not is_ours and not os.path.isfile(source):
        raise invalid("--input", received=source, expected="the path of a checkpoint or of an .npz file")
    arrays, others = (backbones.read_arrays(source), set()) if is_ours else backbones.read_checkpoint(source)
    record = backbones.read_record(source) if is_ours else None
    left_out = {name for name in arrays if ignore and name.startswith(ignore)}
    model = getattr(backbones, backbone)(weights="none", **BACKBONES[backbone])
    kept = {name: value for name, value in arrays.items() if name not in left_out}
    if backbone.startswith("vit_"):
        kept = backbones.with_timm_names(kept)
    result = backbones.assign_parameters(model, kept, source=source)
    source_sha256 = record.source_sha256 if record else file_digest(source)
    backbones.save_parameters(model, output, source_sha256=source_sha256)
    return backbones.LoadedParameters(result.loaded, tuple(sorted({*result.ignored, *left_out, *others})))


def check_output(path: str) -> None:
    """Raise `InvalidInput` unless `path` is an `.npz` in an existing folder."""
    if not path.endswith(".npz"):
        raise invalid("--output", received=path, expected="a name that ends with .npz")
    check_output_file("--output", path)
