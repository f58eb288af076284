"""The text of `--help`: a command's docstring, and its flags in sections."""

from __future__ import annotations

import sys
import textwrap

from absl import flags

from experiments.settings.parts import all_settings

HELP = ("--help", "-help", "-?", "--?")
_OWN, _RUNS = "This command", "Where results are, and what of them is made now"
_OF_RUNS = (
    "data_dir", "cache_dir", "runs_dir", "record", "replace", "checkpoint_seconds", "decoded_images_mb",
    "cache_gb", "allow_cpu", "deterministic", "fold", "repeat", "repeats", "report_only", "details", "explain", "run",
    "max_cells", "export_model", "tracker", "tracker_uri", "tracker_project",
)  # fmt: skip
_METHODS = ("methods", "plugin")
_LAUNCH = "Many units at once"
_OF_LAUNCHES = (
    "launch", "workers", "cpus", "memory_gb", "gpus", "minutes", "partition", "slurm_options", "retries",
)  # fmt: skip
_WIDTH = 112


def help_text(values: flags.FlagValues) -> str:
    """Return the running command's docstring and its flags by section."""
    sections = _sections(values)
    lines = [(sys.modules["__main__"].__doc__ or "").strip()]
    for title, members in sections.items():
        lines += ["", f"{title}:"]
        for flag in members:
            lines += _lines_of(flag)
    return "\n".join(lines)


def _sections(values: flags.FlagValues) -> dict[str, list[flags.Flag]]:
    """Return this command's flags by section title, in order."""
    own = {flag.name: flag for flag in values.get_key_flags_for_module(sys.argv[0])}
    settings = {each.name: each.section for each in all_settings()} if "beta_2" in own else {}
    first = next(iter(settings.values()), _OWN)
    section_of = dict.fromkeys(_OF_RUNS, _RUNS) | dict.fromkeys(_OF_LAUNCHES, _LAUNCH)
    section_of |= dict.fromkeys(_METHODS, first) | settings
    titles = (first, _OWN, _RUNS, _LAUNCH, *settings.values())
    sections: dict[str, list[flags.Flag]] = {title: [] for title in titles}
    for name in [*(name for name in section_of if name in own), *sorted(own.keys() - section_of.keys())]:
        sections[section_of.get(name, _OWN)].append(own[name])
    return {title: members for title, members in sections.items() if members}


def _lines_of(flag: flags.Flag) -> list[str]:
    """Format a flag like absl: name and help, then any default."""
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
    default = f" (default: {flag.default_as_str})" if flag.default_as_str else ""
    text = f"{name}: {flag.help}{default}"
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
