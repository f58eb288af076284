import dataclasses
import importlib

import numpy as np
import pytest

from common.backbones import bn_inception, efficientnet_lite0, mobilenet_v2, network_of_file, resnet50, save_parameters
from common.backbones.network_names import CHANNELS
from common.backbones.parameter_files import OWN_NAMES
from common.backbones.pretrained_weights import named_parameters
from common.data import Dataset, Examples
from common.errors import InvalidInput
from experiments.recipes import draft_of, resolve
from experiments.recipes.own_photos import NO_GPU, check_fits, fit_to_data, fitted_values, training_classes
from experiments.settings.config import ExperimentConfig
from tests.common.backbones.conformance_test import BACKBONES


def dataset_of(num_train, copies=30, **parts):
    labels = np.arange(num_train).repeat(copies)
    test = Examples(np.array([90, 90, 91, 91]), paths=np.array(["a", "b", "c", "d"]))
    return Dataset("folder", Examples(labels, paths=labels.astype(str)), test, **parts)


def fitted(dataset, given=None, loss="pnca", protocol=None):
    draft = draft_of("folder", loss, "gap", "thesis", "full", dict(given or {}), protocol=protocol)
    before = dict(draft.values)
    fit_to_data(draft, dataset, given or {})
    changed = {name: value for name, value in draft.values.items() if before.get(name) != value}
    assert {name for name, source in draft.sources.items() if source.startswith("fits the ")} == set(changed)
    return changed


def test_batches_shrink_to_the_classes_of_a_fold_and_keep_their_size():
    assert fitted(dataset_of(8)) == {"classes_per_batch": 6, "samples_per_class": 5}  # 30 of 32 images
    assert fitted(dataset_of(8), loss="ms") == {"classes_per_batch": 6, "samples_per_class": 5}
    assert fitted(dataset_of(8, copies=3)) == {"classes_per_batch": 6, "samples_per_class": 3}


def test_nothing_changes_for_many_classes():
    assert fitted(dataset_of(43)) == {}
    assert fitted(dataset_of(42)) == {"classes_per_batch": 31}


def test_a_configuration_knows_what_was_fitted():
    draft = draft_of("folder", "ms", "gap", "thesis", "full", {"learning_rate": 1e-4})
    fit_to_data(draft, dataset_of(8), {"learning_rate": 1e-4})
    config = ExperimentConfig.of(draft.values, draft.sources)
    assert fitted_values(config) == {"classes_per_batch": 6, "samples_per_class": 5}
    again = resolve("folder", "ms", "gap", "thesis", "full", {**fitted_values(config), "learning_rate": 1e-4})
    assert again.hash("data") == config.hash("data")


def test_what_was_given_stays():
    assert fitted(dataset_of(8), {"classes_per_batch": 3}) == {}
    assert fitted(dataset_of(8), {"samples_per_class": 1}) == {"classes_per_batch": 6}
    assert fitted(dataset_of(8), {"num_folds": 2}) == {"classes_per_batch": 4, "samples_per_class": 8}


def test_few_classes_have_fewer_folds():
    assert fitted(dataset_of(5)) == {"num_folds": 2, "classes_per_batch": 2, "samples_per_class": 16}
    assert "num_folds" not in fitted(dataset_of(5, validation=dataset_of(3).train), {"num_folds": 4})


def test_the_other_protocols_learn_from_more():
    assert fitted(dataset_of(8), protocol="conventional")["classes_per_batch"] == 8
    held_out = fitted(dataset_of(8), protocol="held_out")
    assert (held_out["held_out_fraction"], held_out["classes_per_batch"]) == (0.25, 6)
    assert training_classes(dataset_of(8), {"protocol": "final"}) == 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"classes_per_batch": 7},
            "--classes_per_batch: received 7, expected at most 6, .*the 8 .*--train_fraction",
        ),
        ({"num_folds": 5}, "--num_folds: received 5, .*--num_folds=4 or fewer"),
        ({"num_folds": 9, "classes_per_batch": 8}, r"2 things are wrong:(.|\n)*num_folds(.|\n)*received 8, .* most 6"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_their_flags(given, message):
    with pytest.raises(InvalidInput, match=message):
        check_fits(dataset_of(8), given, None)


def test_too_few_classes_are_said_without_a_flag_that_was_not_given():
    with pytest.raises(InvalidInput) as error:
        check_fits(dataset_of(3), {}, None)
    assert "--num_folds" not in str(error.value)
    assert "received '5 classes, of which 3 train', expected 4 or more that train" in str(error.value)
    assert "up to 7 or more" in str(error.value)
    check_fits(dataset_of(4), {}, None)


def test_the_network_of_a_file_is_told_by_a_name_that_no_other_has(tmp_path):
    makers = {
        "bn_inception": bn_inception,
        "resnet50": resnet50,
        "mobilenet_v2": mobilenet_v2,
        "efficientnet_lite0": efficientnet_lite0,
    }
    assert makers.keys() == OWN_NAMES.keys()
    names = {name: np.zeros(1) for name in OWN_NAMES.values()}
    assert len(names) == len(OWN_NAMES)
    network = mobilenet_v2(3)
    assert names.keys() & named_parameters(network).keys() == {OWN_NAMES["mobilenet_v2"]}
    for name, parameter in OWN_NAMES.items():
        np.savez(tmp_path / f"{name}.npz", **{parameter: np.zeros(1)})
        assert network_of_file(tmp_path / f"{name}.npz") == name
    np.savez(tmp_path / "other.npz", weight=np.zeros(1))
    assert network_of_file(tmp_path / "other.npz") is None
    (tmp_path / "text.npz").write_text("no archive")
    assert network_of_file(tmp_path / "text.npz") is None


def test_the_network_follows_the_weights_unless_it_is_given(tmp_path):
    path = tmp_path / "mine.npz"
    save_parameters(mobilenet_v2(3), path)
    draft = draft_of("folder", "c2", "gap", "thesis", "full", {})
    fit_to_data(draft, dataset_of(50), {"weights": str(path)})
    assert (draft.values["backbone"], draft.sources["backbone"]) == (
        "mobilenet_v2",
        "the network that --weights is made for",
    )
    draft = draft_of("folder", "c2", "gap", "thesis", "full", {"backbone": "resnet50"})
    fit_to_data(draft, dataset_of(50), {"weights": str(path), "backbone": "resnet50"})
    assert draft.values["backbone"] == "resnet50"


@pytest.mark.parametrize("loss", ["pnca", "margin+distance"])
@pytest.mark.parametrize("protocol", [None, "conventional", "held_out"])
@pytest.mark.parametrize(("name", "classes"), [("cub200", 100), ("cars196", 98), ("sop", 11_318), ("inshop", 3_997)])
def test_nothing_changes_for_official_data_of_the_official_size(name, classes, protocol, loss):
    for recipe in ("thesis", "published_code", "revisiting"):
        draft = draft_of(name, loss, "gap", recipe, "full", {}, protocol=protocol)
        before = dict(draft.values)
        fit_to_data(draft, dataclasses.replace(dataset_of(classes, copies=2), name=name), {})
        assert draft.values == before


def test_the_recipe_of_own_photos_is_for_photographs_and_the_same_under_every_protocol():
    with pytest.raises(
        InvalidInput, match="received 'own_photos with glyphs', expected photographs: cars196, cub200, "
    ):
        resolve("glyphs", "ms", "gap", "own_photos", "full", {})
    fair = resolve("folder", "ms", "gap", "own_photos", "full", {}).as_dict()
    held_out = resolve("folder", "ms", "gap", "own_photos", "full", {}, protocol="held_out").as_dict()
    assert held_out == {**fair, "protocol": "held_out", "held_out_fraction": 0.1}


def test_what_the_machine_decided_is_known_to_a_search():
    draft = draft_of("folder", "ms", "gap", "own_photos", "full", {"trained_from": "head"})
    draft.set(NO_GPU, trained_from="head")
    config = ExperimentConfig.of(draft.values, draft.sources)
    again = resolve("folder", "ms", "gap", "own_photos", "full", fitted_values(config))
    assert again.hash("data") == config.hash("data")


def own(pooling="gap", loss="ms", **given):
    values = draft_of("folder", loss, pooling, "own_photos", "full", given).values
    return values.get("head_start"), values["embedding_dim"]


def test_training_begins_where_the_network_is():
    assert own() == own(backbone="mobilenet_v2") == ("soft_whitening", 1280)
    assert own(pooling="gmp") == ("identity", 1280)  # closed forms are known of average features
    assert own(backbone="resnet50") == ("soft_whitening", 2048)
    assert own(embedding_dim=64) == ("pca", 64)
    assert own(embedding_dim=1280) == ("soft_whitening", 1280)
    assert own(matryoshka="64") == (None, 512)
    assert own(head_start="whitening") == ("whitening", 512)
    assert own(pooling="gsp") == own(loss="ms+groups", pooling="gap") == own(backbone="ConvNeXtTiny") == (None, 512)
    with pytest.raises(InvalidInput, match="--head_start=identity: received 64, expected 1280, .* --head_start=pca"):
        resolve("folder", "ms", "gap", "own_photos", "full", {"embedding_dim": 64, "head_start": "identity"})


def test_few_images_have_no_principal_axes_to_start_with():
    for copies, start in ((30, "pca"), (4, "random")):
        draft = draft_of("folder", "ms", "gap", "own_photos", "full", {"embedding_dim": 64})
        fit_to_data(draft, dataset_of(8, copies), {"embedding_dim": 64})
        assert draft.values["head_start"] == start


def test_the_way_is_measured_of_a_known_start():
    def measured(pooling, **given):
        draft = draft_of("folder", "ms", pooling, "own_photos", "full", given)
        return draft.values.get("interpolation")

    assert measured("gap") == measured("gap", embedding_dim=64) == "0.25,0.5,0.75"
    assert measured("gmp") == "0,0.25,0.5,0.75"  # no closed form of its features is measured before training
    assert measured("gsp") is measured("gap", kept_share=0.5) is None
    assert measured("gap", interpolation="0") == "0"


def test_the_identity_follows_the_network_of_a_file(tmp_path):
    np.savez(tmp_path / "mine.npz", **{OWN_NAMES["resnet50"]: np.zeros(1)})
    for given, dim in (({}, 2048), ({"embedding_dim": 64}, 64)):
        draft = draft_of("folder", "ms", "gap", "own_photos", "full", given)
        fit_to_data(draft, dataset_of(50), {"weights": str(tmp_path / "mine.npz"), **given})
        assert (draft.values["backbone"], draft.values["embedding_dim"]) == ("resnet50", dim)
        assert "embedding_dim" not in fitted_values(ExperimentConfig.of(draft.values, draft.sources))


def test_channels_are_those_of_the_networks(monkeypatch):
    """As tests of the convolutional networks count them."""
    module = importlib.import_module("common.backbones.vision_transformer")
    monkeypatch.setattr(module, "vision_transformer", lambda name, channels, *others: channels)
    counted = {name.removesuffix("_torchvision"): features for name, (_, _, features, *_) in BACKBONES.items()}
    counted |= {name: getattr(module, name)() for name in ("vit_small_16", "vit_base_16")}
    assert {name: counted[name] for name in CHANNELS} == CHANNELS
