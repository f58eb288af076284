import functools
import importlib.metadata
import json
import types

import pytest

from common.commands import plugins
from common.commands.plugins import GROUP
from common.downloads.fingerprint import file_digest
from common.errors import InvalidInput
from common.training.trackers import TrackerChoice
from experiments.parts.registry import Registry, providers
from experiments.recipes import draft_of, resolve
from experiments.runs.trained_model import load_trained_model
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.built_run import BuiltRun
from experiments.settings.method_names import PAIR_LOSSES, parse_method
from experiments.settings.parts import all_settings
from experiments.settings.places import Places
from experiments.settings.plugins import check_stored_plugins, registry_of
from photo_search.photos.models import _Networks
from tests.experiments.settings.plugin_tables import COUNTING, SOURCE, restored_tables

load_plugins = functools.partial(plugins.load_plugins, registry_of=registry_of)
METHOD = ("stripes", "pull+xbm", "power", "thesis", "smoke")


@pytest.fixture(autouse=True)
def tables():
    with restored_tables():
        yield


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "tiny_plugin.py"
    path.write_text(SOURCE)
    return path


def test_a_plug_in_is_a_built_in_that_lives_elsewhere(plugin):
    (provider,) = load_plugins([str(plugin)])
    assert provider.plugin == "tiny_plugin"
    assert "pull" in PAIR_LOSSES
    config = resolve(*METHOD, {"backbone": "strided", "strided_width": 4, "pull_scale": 3.0})
    assert (config.pull_scale, config.power_power, config.strided_width, config.xbm_batches) == (3.0, 2, 4, 2)
    assert set(config.providers()) == {"loss", "pooling", "backbone", "dataset"}
    dataset = build.load_dataset("stripes", None, None, 0)
    assert build.build_backbone(config, dataset).output_shape[-1] == 4
    assert build.build_head(config).pooling.power == 2
    assert build.build_loss(config, 4).loss.scale == 3.0


def test_a_miner_a_sampler_an_optimiser_an_augmentation_and_a_tracker_train(plugin, tmp_path):
    load_plugins([str(plugin)])
    given = {
        "sampler": "reversed",
        "optimizer": "momentum",
        "later.steps": 3,
        "reversed_last": 9,
        "crop": "darker",
        "darker.by": 7,
        "backbone": "strided",
    }
    given |= {"num_folds": 2, "classes_per_batch": 2, "samples_per_class": 2, "max_steps": 2, "embedding_dim": 8}
    config = resolve("stripes", "triplet+later", "gap", "thesis", "smoke", given)
    assert (config.later_steps, config.reversed_last, config.momentum_speed) == (3, 9, 0.9)
    assert {"miner", "sampler", "optimizer", "crop"} <= config.providers().keys()
    assert parse_method("triplet+later+xbm+gap") == ("triplet+later+xbm", "plain", "gap")
    places = Places(tmp_path / "runs", allow_cpu=True)
    runs = UnitRuns(build.load_dataset("stripes", None, None, 0), places, TrackerChoice("lines"))
    runs.train(config, fold=0, repeat=0)
    assert "['loss', 'validation/MAP@R'" in (runs.unit_dir(config, 0, 0) / "lines.txt").read_text()
    trained = load_trained_model(runs.unit_dir(config, 0, 0), dataset=runs.dataset)
    assert trained.model.metric_loss.miner.steps == 3
    run = BuiltRun(config, runs.dataset, 0, 0)
    assert (run.batches.last, run.augmentation.by) == (9, 7)
    assert run.optimizer(trained.model).optimizer.momentum == 0.9
    with pytest.raises(InvalidInput, match="--optimizer: received 'lion', expected one of adam, adamw, momentum"):
        config.replace(optimizer="lion")
    with pytest.raises(InvalidInput, match="--reversed_last would have no effect"):
        resolve("stripes", "triplet", "gap", "thesis", "smoke", {"reversed_last": 9})


def test_a_part_that_fails_on_two_images_is_refused_before_another_method_trains(plugin, tmp_path):
    plugin.write_text(SOURCE.replace("pairs.positive", "pairs.nothing"))
    load_plugins([str(plugin)])
    given = {"classes_per_batch": 2, "samples_per_class": 2, "embedding_dim": 8, "num_folds": 2}
    configs = [resolve("glyphs", loss, "gap", "thesis", "smoke", given) for loss in ("triplet", "pull")]
    runs = UnitRuns(build.load_dataset("glyphs", None, None, 0), Places(tmp_path / "runs", allow_cpu=True))
    message = r"pull\+gap cannot train with the plug-in tiny_plugin .*: AttributeError: .*tiny_plugin.py, line 3\d\)"
    with pytest.raises(InvalidInput, match=message):
        runs.check((config, fold, 0) for config in configs for fold in (0, 1))


def test_a_method_is_one_file_with_a_callback_a_flag_a_conflict_and_a_figure(tmp_path):
    path = tmp_path / "counting_plugin.py"
    path.write_text(COUNTING)
    load_plugins([str(path)])
    given = ("synthetic_tokens", "c2", "gap", "thesis", "smoke")
    config = resolve(*given, {"counting_every": 2, "max_steps": 4}, "counting")
    assert (config.name, config.counting_every, set(config.providers())) == ("c2+counting+gap", 2, {"method"})
    assert parse_method(config.name) == ("c2", "counting", "gap")
    assert config.hash("data") != resolve(*given, {"max_steps": 4}).hash("data")
    with pytest.raises(InvalidInput, match=r"--counting_every: received 0, expected a number in \(0, inf\)"):
        resolve(*given, {"counting_every": 0}, "counting")
    with pytest.raises(InvalidInput, match="counts on one device"):
        resolve(*given, {"strategy": "mirrored", "replicas": 2}, "counting")
    dataset = build.load_dataset("synthetic_tokens", None, None, 0)
    runs = UnitRuns(dataset, Places(tmp_path / "runs", allow_cpu=True))
    runs.train(config, fold=0, repeat=0)
    assert json.loads((runs.unit_dir(config, 0, 0) / "result.json").read_text())["counted"] == 2


def test_settings_become_flags_in_sections_with_ranges_and_help(plugin):
    load_plugins([str(plugin)])
    settings = {each.name: each for each in all_settings()}
    scale, power = settings["pull_scale"], settings["power_power"]
    assert (scale.kind, scale.section, str(scale.metadata["within"])) == (float, "Pull loss (pull)", "(0, inf)")
    assert (power.kind, power.section, str(power.metadata["within"])) == (int, "Power pooling (power)", "[1, inf)")
    assert scale.metadata["help"] == "pull: of the similarities (default: 2.0)"
    with pytest.raises(InvalidInput, match=r"--pull_scale: received -1.0, expected a number in \(0, inf\)"):
        resolve(*METHOD, {"pull_scale": -1.0})
    with pytest.raises(InvalidInput, match="--pull_scale would have no effect"):
        resolve("stripes", "c2", *METHOD[2:], {"pull_scale": 1.0})
    with pytest.raises(InvalidInput, match="--strided_width would have no effect"):
        resolve(*METHOD, {"strided_width": 4})


def test_photo_search_takes_networks_and_leaves_the_rest(plugin):
    assert {name for name in vars(Registry) if not name.startswith("_")} <= {*dir(_Networks)}
    plugins.load_plugins([str(plugin)], _Networks)
    _Networks(None).backbone("named", "tiny_plugin:strided")
    assert {build.BACKBONES[name](1).output_shape[-1] for name in ("strided", "named")} == {8}


def test_a_data_set_takes_the_recipe_that_it_names(plugin):
    load_plugins([str(plugin)])
    theirs = draft_of("glyphs", *METHOD[1:], {}).values
    assert draft_of(*METHOD, {}).values == {**theirs, "dataset": "stripes"}


def test_the_hash_has_the_source_of_what_is_used_and_of_nothing_else(plugin):
    plain = resolve("glyphs", "c2", "gap", "thesis", "smoke", {}).hash("data")
    with restored_tables():
        load_plugins([str(plugin)])
        config = resolve("glyphs", "pull", "gap", "thesis", "smoke", {})
        stated = json.loads(json.dumps(config.stored()["plugins"]))
        assert resolve("glyphs", "c2", "gap", "thesis", "smoke", {}).hash("data") == plain
        before = config.hash("data")
    former = {"loss": {"plugin": "tiny_plugin", "source": f"sha256:{file_digest(plugin)}"}}  # of version 0.2.0
    assert stated["loss"].keys() == former["loss"].keys()
    changes = {"+ 1e-6": "+ 2e-6", '"power", Power': '"other", Power', "-self.scale": "-2 * self.scale"}
    for (old, new), same in zip(changes.items(), (True, True, False)):
        with restored_tables():
            assert SOURCE.count(old)
            plugin.write_text(SOURCE.replace(old, new))
            load_plugins([str(plugin)])
            check_stored_plugins(stated if same else None, "runs/x")
            assert (resolve("glyphs", "pull", "gap", "thesis", "smoke", {}).hash("data") == before) is same
    with restored_tables():
        plugin.write_text(SOURCE)
        load_plugins([str(plugin)])
        check_stored_plugins(former, "runs/x")
    plugin.write_text(SOURCE.replace("-self.scale", "-2 * self.scale"))
    load_plugins([str(plugin)])
    with pytest.raises(
        InvalidInput, match="another version of the plug-in tiny_plugin: the source of its loss was sha256:"
    ):
        check_stored_plugins(stated, "runs/x")


@pytest.mark.parametrize(
    ("line", "of_a"),
    [
        ("'of A'", False),
        ("class B:\n    x = C", False),
        ("registry.loss('b', B)", False),
        ("LATER = A", False),
        ("def make(): return A, HELP", True),
        ("HELP = 'scale', SIZE", True),
        ("SIZE = 3", True),
        ("registry.loss('a', make())", True),
        ("from where import A", True),
        ("A.more = 1", True),
        ("C = A.add(2)", True),
        ("@make\ndef late(): 1", True),
        ("class D:\n    A.k = 3", True),
        ("def waits(time=len([3])): 1", True),
    ],
)
def test_the_source_of_a_part_is_what_it_may_depend_on(tmp_path, line, of_a):
    lines = ["'of A'", "from where import A", "SIZE = 3", "HELP = 'scale', SIZE", "def make(): return A, HELP"]
    lines += ["class B:\n    x = C", "A.more = 1", "C = A.add(2)", "@make\ndef late(): 1", "LATER = A"]
    lines += ["class D:\n    A.k = 3", "def waits(time=len([3])): 1"]
    lines.insert(0, "'\x0c'")  # no end of a line
    lines += ["def register(registry):", "    registry.loss('a', make())", "    registry.loss('b', B)"]
    path = tmp_path / "two.py"

    def source(text):
        path.write_text(text)
        return plugins._source_of_part(types.SimpleNamespace(__file__=str(path)), "a")

    text = "\n".join(lines)
    assert line in text
    assert (source(text) != source(text.replace(line, f"{line}  # another"))) == of_a
    assert source(text + "\nvars()") is None


def test_a_package_and_an_entry_point(tmp_path, monkeypatch):
    package = tmp_path / "tiny_package"
    package.mkdir()
    (package / "__init__.py").write_text("from tiny_package.parts import register\n")
    (package / "parts.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    with restored_tables():
        (provider,) = load_plugins(["tiny_package"])
    (package / "parts.py").write_text(SOURCE + "# another\n")

    class Distribution:
        name, version = "tiny-package", "1.2"

    entry = importlib.metadata.EntryPoint("tiny", "tiny_package", GROUP)._for(Distribution())
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry] if group == GROUP else [])
    (installed,) = load_plugins(["tiny_package"])  # naming it, too, changes nothing
    assert installed.version == "1.2"
    assert installed.source != provider.source
    assert "pull" in build.LOSSES


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nothing_of_that_name\n", "cannot be imported: ModuleNotFoundError: No module .* line 1"),
        ("x = 1 / 0\n", r"cannot be imported: ZeroDivisionError: division by zero \(.*bad_plugin.py, line 1\)"),
        ("def register(:\n", "cannot be imported: SyntaxError: .*bad_plugin.py, line 1"),
        ("import sys\nsys.exit(3)\n", "cannot be imported: SystemExit: 3"),
        ("x = 1\n", r"plug-in bad_plugin: received 'no function register', expected register\(registry\)"),
        ("def register(registry):\n    registry.los('x', 1)\n", "cannot register: AttributeError: .*line 2"),
    ],
)
def test_a_plug_in_that_fails_is_refused_in_one_line(tmp_path, source, message):
    path = tmp_path / "bad_plugin.py"
    path.write_text(source)
    with pytest.raises(InvalidInput, match=message) as refused:
        load_plugins([str(path)])
    assert "\n" not in str(refused.value)
    assert not providers()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["nowhere/my_plugin.py"], "--plugin: received 'nowhere/my_plugin.py', expected a .py file that exists"),
        (["no_such_plugin"], "--plugin: received 'no_such_plugin', expected a module that can be imported"),
        (["no_such.plugin"], "--plugin: received 'no_such.plugin', expected a module that can be imported"),
    ],
)
def test_a_plug_in_that_there_is_not(names, message):
    with pytest.raises(InvalidInput, match=message):
        load_plugins(names)


def test_a_plug_in_that_is_given_twice(plugin):
    with pytest.raises(InvalidInput, match="whose name is that of no other module"):
        load_plugins([str(plugin), str(plugin)])
