"""Documents, docstrings and messages are free of phrases that CONTRIBUTING ("English") refuses."""

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    path
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "*_dml/README.md", "*/README.md")
    for path in ROOT.glob(pattern)
    if ".venv" not in path.parts[-2] and path.parent.name != "build"
)
PACKAGES = ("common", "gsp_dml", "ccp_dml", "experiments")
NOT_YET: tuple[str, ...] = ()  # folders whose strings are still to be mended

_COUNTED = (
    r"(?:models?|trainings?|runs?|prox(?:y|ies)|images?|rows?|lines?|files?|columns?|values?|seeds|one|two|three|four)"
)
_WHOLE = (
    r"(?:fold|class|side|cell|stack|batch|image|anchor|prototype|position|method|run|row|table|figure|line|problem|font|"
    r"second|query|channel|collection)"
)
_NOUN_ENDS = (  # of a training: no noun follows, so that "a training step" is none
    r"(?=[,.;:)]|$| (?:of|is|has|that|which|in|and|with|on|for|was|per|to|from|without|ends|does|may|by|as|stops|"
    r"begins|at|starts|or|selects|before|after|needs|whose|can|will|cannot|had|until|when|alone|than|each)\b)"
)
REFUSED = {
    "per": rf"\b{_COUNTED} (?-i:an?) {_WHOLE}\b(?! of\b)",
    "one command per table": r"\bcommand an? (?:table|figure|cell)\b",
    "runs": r"\btrainings\b",
    "a run": rf"\b(?:a|one|each|every|another|finished|stopped|single) training{_NOUN_ENDS}",
    "unknown, or who it is": r"\b(?:nobody|somebody|anybody)\b",
    "compared with": r"\b(?:held against|holds? it against)\b",
    "instead of": r"\bin (?:the )?place of\b",
    "the thesis, the published value": r"\b(?:the|minus|than|beside|as in|is in|here and in) print\b",
    "continues, resumes": r"\b(?:goes|go|went) on\b(?! top)",
    "0-based rank": r"\bhow-manieth\b",
    "the same number of": r"\bwith as many \w+(?! as classes)\b",
}
_CLAUSE = r"(?:What|Which|How|Where|When|Who|Whether|That|Why) (?!.*\?$)"  # a question may stand as a title
_NOT_PROSE = re.compile(
    r"<!--.*?-->|^```.*?^```|`[^`\n]*`|^\| write \| not \|$.*?^$", re.DOTALL | re.MULTILINE
)  # the last: the table of CONTRIBUTING that names them
_KEYS = {"held against"}  # of recorded rows


def refused_phrases(text: str) -> list[str]:
    """The phrases found in a text, outside of code."""
    text = re.sub(r"\s+", " ", _NOT_PROSE.sub(" ", text))
    return [found.group() for phrase in REFUSED.values() for found in re.finditer(phrase, text, re.IGNORECASE)]


def refused_in_code(source: str) -> list[str]:
    """The phrases found in the docstrings and other strings of a module, and a title of it that is a clause."""
    tree = ast.parse(source)
    title = (ast.get_docstring(tree) or "").partition("\n")[0]
    found = [title] if re.match(_CLAUSE, title) else []
    for text in _strings(tree):
        found += refused_phrases(text) if text not in _KEYS else []
    return found


def _strings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _modules() -> list[pathlib.Path]:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in files if path.parent.relative_to(ROOT).as_posix() not in NOT_YET]


def test_the_documents_are_all_that_there_are():
    names = {path.relative_to(ROOT).as_posix() for path in DOCUMENTS}
    assert {
        *("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "experiments/README.md", "results/README.md"),
        *("docs/index.md", "docs/results/index.md", "gsp_dml/README.md", "ccp_dml/README.md"),
    } <= names


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documents_have_none_of_them(path):
    assert refused_phrases(path.read_text(encoding="utf-8")) == []


def test_docstrings_and_messages_have_none_of_them():
    found = {
        path.relative_to(ROOT).as_posix(): refused_in_code(path.read_text(encoding="utf-8")) for path in _modules()
    }
    assert {path: phrases for path, phrases in found.items() if phrases} == {}


PLANTED = {
    "per": ["trains one model a fold", "two runs\na side", "four images a class"],
    "one command per table": ["one command a table cell"],
    "runs": ["52 trainings were stopped"],
    "a run": ["a training of 4,000 steps", "each training, from its start", "It reads a finished training."],
    "unknown, or who it is": ["Nobody can tell."],
    "compared with": ["held against the baseline", "tables hold it against ours"],
    "instead of": ["in the place of proxies", "samples in place of proxies"],
    "the thesis, the published value": ["what the print says", "minus print -30.1", "signs as in print"],
    "continues, resumes": ["the same command goes on", "it went on from there"],
    "0-based rank": ["the how-manieth position"],
    "the same number of": ["tuned with as many trials"],
}


def test_every_phrase_has_a_planted_one():
    assert list(PLANTED) == list(REFUSED)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in PLANTED.items() for text in texts])
def test_a_planted_phrase_is_found(name, text):
    assert re.search(REFUSED[name], " ".join(text.split()), re.IGNORECASE)
    assert refused_phrases(text) != []
    assert refused_in_code(f'"""Layer.\n\n{text}\n"""') != []
    assert refused_in_code(f"raise ValueError({text!r})") != []
    assert refused_in_code(f"message = f{text + ' {count}'!r}") != []


@pytest.mark.parametrize("title", ["What a run is.", "How classes lie in space.", "Where a pooling looks: maps."])
def test_a_planted_clause_as_a_title_is_found(title):
    assert refused_in_code(f'"""{title}"""') == [title]
    assert refused_in_code(f'"""Runs.\n\n{title}\n"""') == []


@pytest.mark.parametrize(
    "text",
    [
        "a training step, one training image, the training of a network",
        "one of a class, two at a time, `trainings` and `held against`",
        "<!-- results: a(study=held against) -->",
        "```\nthe same command goes on\n```\n",
        "loads on top: it goes on top of the backbone",
        "k-means with as many clusters as classes",
    ],
)
def test_others_are_left_alone(text):
    assert refused_phrases(text) == []


def test_names_and_keys_in_code_are_left_alone():
    assert refused_in_code('trainings = {"held against": goes_on}  # nobody') == []


def test_a_question_may_be_a_title():
    assert refused_in_code('"""What do diagnostics say of retrieval?"""') == []
