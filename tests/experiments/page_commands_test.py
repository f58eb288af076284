"""Commands of README.md and of the pages for photos run in this process, with tiny data, networks and budgets."""

import importlib.util
import io
import re
import shlex
import shutil
import sys

import numpy as np
import pytest

from common.backbones.pretrained_weights import save_parameters
from experiments.__main__ import commands
from experiments.photos.actions import FLAGS
from tests.command_line import ONE_EVALUATION, ROOT, SMALL_PHOTOGRAPHS, run_small_here
from tests.experiments.photos.conftest import write_photo
from tests.experiments.tiny_network import tiny_network

README = ROOT / "README.md"
PAGES = [README, ROOT / "docs" / "own_photos.md", ROOT / "docs" / "search.md"]
RUN_BY = {  # tests that run a command already; they are checked to give it the page's flags
    "convert_weights": "experiments/preparation/converted_weights_test.py",
    "demo": "experiments/demo_test.py",
    "make": "conftest.py",  # of `make test`: this process
    "pip": "experiments/installed_package_test.py",
    "serve": "experiments/photos/serve_test.py",
    "tune": "experiments/tuning/command_test.py",
}
WHOLE = {"", "doctor"}  # commands that are whole without a flag; other names alone are not commands to type
NETWORK = ["--backbone=resnet10", "--weights=mobilenet_v2.npz", "--image_size=32"]
SMALL = [*SMALL_PHOTOGRAPHS[1:], *NETWORK, *ONE_EVALUATION, "--num_folds=2", "--noexport_model"]
INSTEAD = {  # flags after those of the page, for what takes long
    **{"fair_eval": SMALL, "train_final": NETWORK[1:2], "clinic": NETWORK, "clean": ["--yes"]},
    **{"search embed": NETWORK, "search index": NETWORK},
}


def commands_on(page):
    """The commands of a page, between backquotes or indented; ours without the name of a program."""
    text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
    found = re.findall(r"(?:^    |`)((?:make |pip install \.|dml\b|python -m exp|find )[^`\n]*)", text, re.MULTILINE)
    for line in found:
        line = re.split(r"\s+#", line)[0].rpartition("| ")[2].strip()
        yield re.sub(r"^(?:dml ?|python -m experiments\.)", "", {"make demo": "demo"}.get(line, line))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Photos of sixteen classes in `photos` and `images`, and other files that pages name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # with the default cache
    for number in range(16):
        name = {0: "jay", 1: "Audi R8 Coupe 2012"}.get(number, f"class{number}")
        for place in range(4):
            write_photo(tmp_path / "photos" / name / f"{566 + place:06}.jpg", 10 * number + place)
    shutil.copytree("photos", "images")
    write_photo(tmp_path / "new.jpg", 20)
    names = [f"photos/jay/{566 + place:06}.jpg" for place in range(4)]
    (tmp_path / "pairs.csv").write_text(f"first,second,same\n{names[0]},{names[1]},1\n{names[0]},{names[2]},1\n")
    (tmp_path / "photos.csv").write_text("path,year\n" + "".join(f"{name},2021\n" for name in names))
    np.savez("test.npz", embeddings=np.eye(4)[[0, 0, 1, 1]], labels=[0, 0, 1, 1])
    save_parameters(tiny_network(3), tmp_path / "mobilenet_v2.npz")
    return tmp_path


def made(argument, folder):
    """The argument with what an earlier command has written in place of what the page's authors had."""
    name, equals, place = argument.rpartition("=")
    places = {"runs/fair": re.sub("[0-9a-f]{10}$", "*", place), "model.keras": "runs/final/**/model.keras"}
    pattern = next((places[start] for start in places if place.startswith(start)), None)
    found = sorted(folder.glob(pattern)) if pattern else []
    return f"{name}{equals}{found[0]}" if found else argument.replace("http://localhost:6333", "store")


def needs_missing(line):
    """Whether a command needs a library that is not here."""
    libraries = {"approximate": "faiss", "push": "qdrant_client"}
    return any(word in line and importlib.util.find_spec(library) is None for word, library in libraries.items())


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page, folder, monkeypatch, glyph_cache):
    (folder / "home" / ".cache").mkdir(parents=True)
    shutil.copytree(glyph_cache, folder / "home" / ".cache" / "deep_metric_learning")
    for line in dict.fromkeys(commands_on(page)):
        command, *arguments = shlex.split(line) or [""]
        if command in RUN_BY:
            text = (ROOT / "tests" / RUN_BY[command]).read_text(encoding="utf-8")
            flags = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
            words = [f"experiments.{command}", *flags] if command in commands() else []
            assert [word for word in words if word not in text] == []
        elif (arguments or command in WHOLE) and not needs_missing(line):
            key = next((key for key in INSTEAD if line.startswith(key)), "")
            instead = [] if "--model" in line or "search" in key and "--images" not in line else INSTEAD.get(key, [])
            module = f"experiments.{command}" if command else "experiments"
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"new.jpg\n")))
            finished = run_small_here(module, *(made(each, folder) for each in arguments), *instead)
            assert finished.returncode == 0, (line, finished.stderr)


def test_every_command_that_readme_names_is_written_out_on_a_page():
    names = {line.split()[0] for line in commands_on(README) if line}
    written = {line.split()[0] for page in PAGES for line in commands_on(page) if " " in line}
    assert names - written - RUN_BY.keys() <= WHOLE
    assert {line.split()[1] for line in commands_on(PAGES[-1]) if line.startswith("search ")} == set(FLAGS)
