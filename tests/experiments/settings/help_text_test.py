import re

from tests.support.command_line import done_here


def sections_of(command):
    result = done_here(f"experiments.{command}", "--help=all")
    sections, members = {}, []
    for line in result.stdout.splitlines():
        if re.fullmatch(r"\S.*:", line):
            members = sections.setdefault(line[:-1], [])
        elif found := re.match(r"  --(?:\[no\])?(\w+):", line):
            members.append(found[1])
    return sections


def test_flags_stand_with_the_part_that_they_set():
    sections = sections_of("fair_eval")
    assert sections["What is compared"][:3] == ["methods", "plugin", "dataset"]
    assert sections["Multi-similarity loss (ms)"] == ["ms_alpha", "ms_beta", "ms_base"]
    memory = "xbm_batches xbm_start xbm_fills_first xbm_holds_batch xbm_terms xbm_weight"
    assert sections["Cross-batch memory (+xbm)"] == memory.split()
    assert "gsp_memory_size" in sections["Generalized sum pooling (gsp)"]
    assert {"runs_dir", "fold", "explain"} <= set(sections["Where results are, and what of them is made now"])
    assert "This command" not in sections


def test_a_command_without_settings_has_its_own_section():
    sections = sections_of("evaluate")
    assert set(sections) == {"This command"}
    assert {"embeddings", "seed", "json"} <= set(sections["This command"])


def test_the_short_help_has_the_usual_flags_and_those_of_the_parts_that_are_named(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("fair_eval", "demo"):
        lines = done_here(f"experiments.{command}", "--help").stdout.splitlines()
        assert len(lines) <= 60
        assert lines[-1].startswith("--help=all lists ")
        assert "--ms." not in "".join(lines)
    text = done_here("experiments.fair_eval", "--help", "--methods=ms+gsp").stdout
    assert "--ms.positive_scale: ms: " in text
    assert "--gsp.num_prototypes: gsp: " in text
    assert "--c2.positive_margin" not in text
