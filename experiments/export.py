"""Export of a run or an untrained network: Keras, SavedModel, TFLite, ONNX.

The model contains the network and, in the first two formats, the preprocessing of evaluation. Before the file gets its
name, it is read back and compared with the run's stored test embeddings, or with the network.

Regenerates: no table; docs/deploy.md says which run to export.
Command: python -m experiments.export --run=runs/fair/glyphs/c2+gap-0123456789/fold0-repeat0 --format=keras
    [--output=exported/model.keras] (`fair_eval` and `conventional_eval` write model.keras into each run automatically)
    python -m experiments.export --backbone=efficientnet_lite0 --output=exported/model.keras (no training)
    python -m experiments.export --backbone=efficientnet_lite0 --format=tflite_int8 --images=photos --output=m.tflite
Expected: differences from the stored embeddings below 1e-6 (keras, savedmodel), 1e-4 (tflite), 1e-5 (onnx); of rounded
    ones, MAP@R before and after.
Cost: seconds to a minute on one CPU core, mostly for the conversion to TFLite or ONNX.
"""

from __future__ import annotations

from absl import flags, logging

from common.deployment.untrained import FLAGS as UNTRAINED_FLAGS, define_untrained_flags, untrained_from_flags
from common.errors import invalid
from experiments.deployment.untrained import export_untrained
from experiments.deployment.writing import FORMAT_NAMES, export_run
from experiments.reports.plain_tables import filled
from experiments.settings import flags as experiment_flags


def main() -> None:
    """Write the model and its card; print its deviation from the run."""
    logging.set_verbosity(logging.WARNING)  # converters log every pass
    values = flags.FLAGS
    if (values.run is None) == (values.backbone is None):
        received = "neither" if values.run is None else "both"
        fix = "--run exports a finished run, --backbone a network with published weights and without training."
        raise invalid("--run and --backbone", received=received, expected="exactly one of them", fix=fix)
    if values.backbone is not None:
        refuse = ("data_dir", "cache_dir", *(["num_checked"] if values.images is None else []))
        experiment_flags.refuse_flags(values, *refuse, because="--backbone exports a network without a run")
        given = values.output, values.images, values.num_checked
        card, measured = export_untrained(untrained_from_flags(values), values.format, *given)
        print(*filter(None, [filled(measured)]), f"Written: {values.output} and {card}", sep="\n")
        return
    because = "it describes a network of --backbone, and a run has its own"
    experiment_flags.refuse_flags(values, *UNTRAINED_FLAGS, "images", because=because)
    places = {"data_dir": values.data_dir, "cache_dir": values.cache_dir}
    written = export_run(values.run, values.format, values.output, num_checked=values.num_checked, **places)
    found = [*map(filled, written.notes), *written.agreement.sentences()]
    print(*found, f"Written: {written.path} and {written.card}", sep="\n")


if __name__ == "__main__":
    experiment_flags.define_plugin_flag()
    flags.DEFINE_string("run", None, "A finished run's directory.")
    define_untrained_flags()
    flags.DEFINE_string("format", "keras", f"One of {', '.join(FORMAT_NAMES)}.")
    text = "Folder of photos, on which a tflite or onnx model of --backbone is checked, and tflite_int8 calibrated."
    flags.DEFINE_string("images", None, text)
    flags.DEFINE_string("output", None, "Path of the model, a folder for savedmodel (default: in --run's directory).")
    flags.DEFINE_integer(
        "num_checked", 256, "Images on which the model is compared with the run, or network.", lower_bound=1
    )
    experiment_flags.define("data_dir", "cache_dir")
    experiment_flags.run_command(main)
