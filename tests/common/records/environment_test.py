import pathlib
import shutil
import subprocess

import pytest

import common
from common.records import environment
from common.records.environment import commit_of
from common.records.training_cost import TrainingCost

ROOT = pathlib.Path(__file__).resolve().parents[3]


def git(folder, *arguments):
    identity = ["-c", "user.name=n", "-c", "user.email=e"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A repository of one commit, which knows this code."""
    code = tmp_path / "common" / "records" / "environment.py"
    code.parent.mkdir(parents=True)
    code.touch()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rows.jsonl").touch()
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message=first")
    return tmp_path


def test_version_and_commit_are_those_of_this_code():
    found = environment()
    assert found["version"] == common.__version__
    if not (ROOT / ".git").exists():
        assert found["commit"] is None
    else:
        assert git(ROOT, "rev-parse", "HEAD").startswith(found["commit"].removesuffix("-dirty"))


def test_the_commit_says_whether_files_differ(checkout):
    head = git(checkout, "rev-parse", "--short=12", "HEAD")
    assert commit_of(checkout) == head
    (checkout / "other.py").touch()
    (checkout / "docs" / "rows.jsonl").write_text("{}\n")
    assert commit_of(checkout) == head
    (checkout / "common" / "records" / "environment.py").write_text("x = 1\n")
    assert commit_of(checkout) == f"{head}-dirty"


def test_the_repository_around_an_installation_has_no_say(checkout, monkeypatch):
    site_packages = checkout / "venv" / "site-packages"
    shutil.copytree(checkout / "common", site_packages / "common")
    assert commit_of(site_packages) is None
    monkeypatch.setenv("GIT_DIR", str(checkout / ".git"))
    (site_packages / ".git").mkdir()
    assert commit_of(site_packages) is None
    monkeypatch.delenv("GIT_DIR")
    git(checkout, "rm", "-r", "--quiet", "--cached", "common")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message=ours lies here, and is not theirs")
    assert commit_of(checkout) is None


def test_sessions_add_up_also_with_older_ones(monkeypatch):
    now, of_processor = iter([0.0, 10.0, 100.0, 105.0, 200.0, 201.0]), iter([7.0, 25.0, 1.0, 3.0, 0.0, 1.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    monkeypatch.setattr("time.process_time", lambda: next(of_processor))
    state = TrainingCost().state()
    assert state == {"seconds": 10.0, "processor_seconds": 18.0}
    second = TrainingCost()
    second.restore(state, [])
    assert second.as_dict() == {"train_seconds": 15.0, "processor_seconds": 20.0}
    older = TrainingCost()
    older.restore({"seconds": 10.0, "joules": {"cpu_packages": 50.0, "gpus": None}}, [])
    assert older.as_dict() == {"train_seconds": 11.0}
