"""Commands of README.md and of the pages run as they are written, in this process, on few images and in few steps.

A flag may be added that shortens training. None replaces a network, weights or a loss that a reader gets.
"""

import io
import re
import shlex
import shutil
import sys
from unittest import mock

import pytest

from common import deployment
from common.downloads import file_digest
from experiments.__main__ import commands, module_of
from photo_search.photos import copies
from photo_search.photos.actions import FLAGS
from tests.photo_search.conftest import write_photo
from tests.support.command_line import ONE_EVALUATION, ROOT, run_here
from tests.support.eager_functions import eagerly

README = ROOT / "README.md"
PAGES = [ROOT / "docs" / "own_photos.md", ROOT / "docs" / "search.md", README]
RUN_BY = {  # tests that run a command already; they are checked to give it the page's flags
    "convert_weights": "experiments/preparation/converted_weights_test.py",
    "demo": "experiments/demo_test.py",
    "make": "conftest.py",  # of `make test`: this process
    "pip": "experiments/installed_package_test.py",
    "serve": "photo_search/page/serve_test.py",
    "tune": "experiments/tuning/command_test.py",
}
WHOLE = {"", "doctor"}  # commands that are whole without a flag; other names alone are not commands to type
SHORT = ["--budget=smoke", *ONE_EVALUATION]
# The command of method.md has a test of its own (own_parts_test.py), those of tracking.md need a server.
FIRST = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.stem not in ("method", "tracking")]
FIRST += [ROOT / "experiments" / "README.md"]
NUM_CLASSES, PHOTOS = 8, 4  # half of the classes train, in two folds: the fewest that there may be
DONE = set()  # a line that stands on several pages runs on the first of them


def commands_on(page, place="^    |`"):
    """The commands of a page, between backquotes or indented; ours without the name of a program."""
    text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
    found = re.findall(
        rf"(?:{place})((?:make |pip install \.|dml\b|python -m (?:exp|photo)|find )[^`\n]*)", text, re.MULTILINE
    )
    for line in found:
        line = re.split(r"\s+#", line)[0].rpartition("| ")[2].strip()
        yield re.sub(r"^(?:dml ?|python -m (?:experiments|photo_search)\.)", "", {"make demo": "demo"}.get(line, line))


@pytest.fixture(scope="module")
def home(tmp_path_factory, glyph_cache):
    """A home with the default cache: what pages embed of the same photos is computed once."""
    home = tmp_path_factory.mktemp("home")
    (home / ".cache").mkdir(parents=True)
    shutil.copytree(glyph_cache, home / ".cache" / "deep_metric_learning")
    return home


@pytest.fixture(scope="module", autouse=True)
def models_are_read_once():
    """The first command that uses a model reads it: half of what a search costs. Few copies are made, none turned."""
    read = {}

    def read_once(path, read_model=deployment.load_embedder):
        digest = file_digest(path)
        if digest not in read:
            read[digest] = read_model(path)
        return read[digest]

    few = {"_MOST": 8, "_TURNS": 1, "COPYING": {"mirrored": copies.COPYING["mirrored"]}}
    with mock.patch.object(deployment, "load_embedder", read_once), mock.patch.multiple(copies, **few):
        yield


@pytest.fixture
def folder(tmp_path, home, monkeypatch):
    """Photos in folders of classes, and other files that pages name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(home))
    for number in range(NUM_CLASSES):
        name = {0: "jay", 1: "Audi R8 Coupe 2012"}.get(number, f"class{number}")
        for place in range(PHOTOS):
            write_photo(tmp_path / "photos" / name / f"{566 + place:06}.jpg", 10 * number + place)
    for name in ("new.jpg", "new/1.jpg", "new/2.jpg"):
        write_photo(tmp_path / name, 20)
    names = [f"photos/jay/{566 + place:06}.jpg" for place in range(PHOTOS)]
    (tmp_path / "pairs.csv").write_text(f"first,second,same\n{names[0]},{names[1]},1\n{names[0]},{names[2]},1\n")
    (tmp_path / "photos.csv").write_text("path,year\n" + "".join(f"{name},2021\n" for name in names))
    return tmp_path


def made(argument, folder):
    """The argument with what an earlier command has written in place of what the page's authors had."""
    name, equals, place = argument.rpartition("=")
    places = {"runs/fair": re.sub("[0-9a-f]{10}$", "*", place), "model.keras": "runs/final/**/model.keras"}
    pattern = next((places[start] for start in places if place.startswith(start)), None)
    found = sorted(folder.glob(pattern)) if pattern else []
    return f"{name}{equals}{found[0]}" if found else argument


def added_to(command, arguments):
    """Flags that shorten a command; of photos all folds are trained, for their report and their final model.

    That model alone is exported; `export_test` has those of folds.
    """
    if command == "fair_eval":
        size = "--fold=0" if "--dataset=glyphs" in arguments else "--image_size=64"
        return [*SHORT, "--noexport_model", "--num_folds=2", size]
    if command in ("table", "figure"):
        return [*SHORT, *(["--max_cells=1"] if "--run" in arguments else [])]
    return ["--yes"] if command == "clean" else []


def run_as_written(line, folder, monkeypatch):
    """Run a command of a page, or check that the test that runs it gives it the page's flags."""
    command, *arguments = shlex.split(line) or [""]
    is_done = line in DONE
    DONE.add(line)
    if is_done:
        return
    if command in RUN_BY:
        text = (ROOT / "tests" / RUN_BY[command]).read_text(encoding="utf-8")
        flags = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
        words = [module_of(command), *flags] if command in commands() else []
        assert [word for word in words if word not in text] == []
    elif (arguments or command in WHOLE) and "postgresql://" not in line:
        module = module_of(command) if command else "experiments"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"new.jpg\n")))
        with eagerly(True):
            finished = run_here(module, *(made(each, folder) for each in arguments), *added_to(command, arguments))
        assert finished.returncode == 0, (line, finished.stderr)


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page, folder, monkeypatch):
    for line in dict.fromkeys(commands_on(page)):
        if not line.startswith("search bundle "):
            run_as_written(line, folder, monkeypatch)


@pytest.mark.release  # twenty seconds of a converter; `bundle_test` has a small network
@pytest.mark.default_stack
def test_the_default_network_becomes_a_bundle(folder, monkeypatch):
    index, *_, bundle = (line for line in commands_on(PAGES[1]) if line.startswith(("search index ", "search bundle ")))
    for line in (index, bundle):
        run_as_written(line, folder, monkeypatch)


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.parametrize("page", FIRST, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_the_first_command_of_a_page_runs(page, folder, monkeypatch):
    for line in [*commands_on(page, "^    ")][:1]:
        assert not line.startswith("convert_weights"), "a page begins with what needs no download and no PyTorch"
        run_as_written(line, folder, monkeypatch)


def test_every_command_that_readme_names_is_written_out_on_a_page():
    names = {line.split()[0] for line in commands_on(README) if line}
    written = {line.split()[0] for page in PAGES for line in commands_on(page) if " " in line}
    assert names - written - RUN_BY.keys() <= WHOLE
    assert {line.split()[1] for line in commands_on(PAGES[1]) if line.startswith("search ")} == set(FLAGS)
