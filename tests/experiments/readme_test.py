import pathlib
import re
import shlex

from experiments.__main__ import commands
from experiments.published.values import read_csv
from experiments.studies.figures import FIGURES, OWN_FIGURES
from experiments.studies.tables import CLAIMS_ID, TABLES

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "experiments" / "README.md"
INDEX = ROOT / "docs" / "results" / "index.md"


def section(name):
    """The cells of each line of a section's table, by the item's number."""
    text = README.read_text().split(f"\n## {name}\n")[1].split("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    return {cells[0].partition(":")[0]: cells for cells in lines[2:]}


def test_every_table_and_figure_is_listed():
    for name, studies in (("Tables", {*TABLES, CLAIMS_ID}), ("Figures", {**FIGURES, **OWN_FIGURES})):
        lines = section(name)
        assert set(lines) == {number for number in studies if not number.startswith("milbich")}


def test_the_papers_page_has_every_table_and_figure_and_commands_that_exist():
    items = {(row["document"], row["item"]) for row in read_csv("documents.csv")}
    assert len(items) == len(read_csv("documents.csv"))
    listed = {"table": set(), "figure": set()}
    for row in read_csv("documents.csv"):
        assert row["here"] or row["missing"]
        for line in re.findall(r"`dml ([^`]*)`", row["here"]):
            command, *flags = shlex.split(line)
            assert command in commands()
            if command in listed:
                listed[command] |= {flag.removeprefix("--id=") for flag in flags if flag.startswith("--id=")}
    assert listed == {
        "table": {*TABLES, CLAIMS_ID},
        "figure": {*FIGURES, *OWN_FIGURES},
    }


def test_figures_of_the_index_stand_in_the_pages_that_it_links_to():
    for line in INDEX.read_text().splitlines():
        page = re.match(r"\| \[[^]]+\]\((\w+\.md)\)", line)
        if page:
            document = (INDEX.parent / page[1]).read_text()
            figures = re.findall(r"\d+\.\d\d|\.\d\d\d", line)
            assert [figure for figure in figures if figure not in document] == []


def test_the_index_has_every_page_of_results():
    assert set(re.findall(r"\]\((\w+\.md)\)", INDEX.read_text())) == {
        path.name for path in INDEX.parent.glob("*.md") if path != INDEX
    }


def test_figures_measured_here_stand_in_the_documents_that_they_are_from():
    for cells in (*section("Tables").values(), *section("Figures").values()):
        link = re.search(r"\]\(\.\./([\w./]+\.md)\)", cells[2])
        figures = re.findall(r"\d\d\.\d\d|\d\.\d{3}", cells[2])
        if link:
            document = (ROOT / link[1]).read_text()
            assert [figure for figure in figures if figure not in document] == []
        elif figures:
            readme = (ROOT / "README.md").read_text()
            assert [figure for figure in figures if figure not in readme] == []
