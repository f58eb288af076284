"""The gate: documents and pictures say what their rows say, and a figure that was changed by hand is found."""

import json
import pathlib
import re
import shutil

import pytest

from common.errors import InvalidInput
from tests.command_line import check_clean_failure, run_module
from tools.documents.marked_blocks import blocks, values
from tools.documents.pictures import PICTURES, stated_digest
from tools.documents.rebuilding import Repository, check
from tools.documents.unrecorded import LIST, REASONS, tables_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
STUDIES, COMPUTED = "docs/results/tokens.md", "docs/results/transport.md"
COPIED = ("README.md", STUDIES, COMPUTED, "experiments/README.md")


@pytest.fixture
def copy(tmp_path):
    """A few documents of this repository, its pictures and rows, and what the list says of them, to be changed."""
    for name in [*COPIED, *(path.relative_to(ROOT) for path in ROOT.glob("docs/figures/*.png"))]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "results", tmp_path / "results")
    content = json.loads((ROOT / LIST).read_text())
    content["tables"] = [entry for entry in content["tables"] if entry["document"] in COPIED]
    (tmp_path / LIST).write_text(json.dumps(content, indent=1))
    return tmp_path


def change(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


def test_documents_and_pictures_are_what_their_rows_say():
    check(ROOT)


def test_a_figure_changed_by_hand_is_found_and_made_right(copy):
    text = (copy / STUDIES).read_text()
    block = next(block for block in blocks(text) if block.arguments["study"] == "figure_5_4_full")
    figure = re.search(r"\| (\d\d\.\d\d) \|", block.text)[1]
    change(copy / STUDIES, block.text, block.text.replace(figure, "59.99"))
    with pytest.raises(InvalidInput, match=rf"{STUDIES}: line \d+ says .*59\.99.*; by its rows, .*{figure}"):
        check(copy)
    assert Repository(copy).rebuild() == [STUDIES]
    assert (copy / STUDIES).read_text() == text
    check(copy)


def test_a_value_changed_by_hand_in_prose_is_found(copy):
    text = (copy / "experiments/README.md").read_text()
    value = next(value for value in values(text) if value.study == "figure_5_4_full")
    change(copy / "experiments/README.md", f"-->{value.text}<!--", "-->12.34<!--")
    with pytest.raises(InvalidInput, match=r"12\.34"):
        check(copy)


def test_a_row_changed_by_hand_is_found(copy):
    path = copy / "results" / "figure_5_4_full" / "rows.jsonl"
    change(path, '"weight_on_own": 0.5', '"weight_on_own": 0.6')
    with pytest.raises(InvalidInput, match=r"(?s)says '\| GAP .*figure_5_4.png was not drawn from the rows"):
        check(copy)


def test_a_picture_of_other_rows_is_found(copy):
    name = "docs/figures/figure_5_4.png"
    assert stated_digest(copy / name)
    shutil.copy(copy / "docs/figures/figure_5_2.png", copy / name)
    with pytest.raises(InvalidInput, match="figure_5_4.png was not drawn from the rows of figure_5_4_full"):
        check(copy)
    assert Repository(copy).rebuild() == [name]
    check(copy)


def test_a_table_that_has_neither_rows_nor_a_reason_is_found(copy):
    with (copy / STUDIES).open("a") as file:
        file.write("\n## New\n\n| method | MAP@R |\n|---|---:|\n| mine | 99.99 |\n")
    with pytest.raises(InvalidInput, match=rf"{STUDIES}, line \d+: a table without rows.*'New'"):
        check(copy)


def test_a_picture_that_has_neither_is_found(copy):
    shutil.copy(copy / "docs/figures/figure_5_2.png", copy / "docs/figures/new.png")
    with pytest.raises(InvalidInput, match="docs/figures/new.png is drawn from no rows"):
        check(copy)


def test_the_reason_stands_below_the_table(copy):
    name, reason = COMPUTED, REASONS["computed"]
    change(copy / name, f"\n{reason}\n", "")
    with pytest.raises(InvalidInput, match=rf"{name}: line \d+ says"):
        check(copy)
    assert Repository(copy).rebuild() == [name]
    assert (copy / name).read_text() == (ROOT / name).read_text()


def test_the_list_names_what_is_there(copy):
    content = json.loads((copy / LIST).read_text())
    content["tables"].append({"document": STUDIES, "section": "Gone", "header": "| a |", "reason": "words"})
    content["pictures"].append({"picture": "docs/figures/gone.png", "reason": "words"})
    (copy / LIST).write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=r"(?s)names what is not there, or has rows: .*Gone.*gone\.png"):
        check(copy)
    assert Repository(copy).rebuild() == [str(LIST)]
    check(copy)


def test_an_unknown_reason_is_refused(copy):
    change(copy / LIST, '"reason": "computed"', '"reason": "no idea"')
    with pytest.raises(InvalidInput, match="Invalid reason in results/without_rows.json: received 'no idea'"):
        check(copy)


def test_every_measured_table_without_rows_says_so():
    for entry in json.loads((ROOT / LIST).read_text())["tables"]:
        text = (ROOT / entry["document"]).read_text()
        table = next(of for of in tables_of(text) if (of.section, of.header) == (entry["section"], entry["header"]))
        below = next((line for line in text.splitlines()[table.end :] if line.strip()), None)
        assert below == REASONS[entry["reason"]] or not REASONS[entry["reason"]]


def test_every_drawn_picture_stands_in_a_document():
    texts = "".join((ROOT / name).read_text() for name in Repository(ROOT).documents())
    assert [name for name in PICTURES if pathlib.Path(name).name not in texts] == []


def test_code_is_no_table():
    text = "# A\n```\n| a |\n|---|\n```\n| b | c |\n|---|---|\n| 1 | 2 |\n\n| no table\n"
    assert [(table.section, table.header, table.start, table.end) for table in tables_of(text)] == [
        ("A", "| b | c |", 5, 8)
    ]


def test_the_command_checks_and_changes_nothing(copy):
    change(copy / STUDIES, "| GAP | 58.14 |", "| GAP | 58.15 |")
    before = (copy / STUDIES).read_bytes()
    check_clean_failure(run_module("tools.documents", "--check", f"--root={copy}"), "58.15", "58.14")
    assert (copy / STUDIES).read_bytes() == before
    check_clean_failure(run_module("tools.documents", f"--root={copy / 'docs'}"), "--root", "checkout")
