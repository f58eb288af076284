import contextlib
import json
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import milbich_dml
from common import data, losses, retrieval
from common.errors import InvalidInput
from experiments.protocols.report_files import feature_lines
from experiments.recipes import resolve
from experiments.runs.trained_model import load_trained_model
from experiments.runs.unit import Unit
from experiments.settings import build
from experiments.settings.places import Places
from experiments.settings.splits import split_of
from milbich_dml.pads import Pads
from tests.experiments.tiny_study import TinyStudy

DIVA = "margin+distance+shared+intra+dance"
SIZES = {"embedding_dim": 16, "samples_per_class": 4, "decorrelation": 1.0}
PADS = {"pads_steps": 3, "pads_bins": 10, "pads_start": "all"}
pytestmark = pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")


class Stopped(Exception):
    pass


@pytest.fixture
def study(tmp_path):
    return TinyStudy(tmp_path / "study")


def config_of(study, loss, method="plain", pooling="gap", **given):
    given = {"max_steps": 8, "steps_per_evaluation": 2, "num_folds": 2, "classes_per_batch": 4, **given}
    return resolve("glyphs", loss, pooling, "thesis", "smoke", {"image_size": 16, **given}, method)


def trained(study, config, stop_after=()):
    """The run directory of a unit that is stopped after some of its validations and resumed; its clock is left out."""
    left = list(stop_after)

    def watch(step, metrics):
        if left and step == left[0]:
            left.pop(0)
            raise Stopped

    for _ in range(1 + len(left)):
        with contextlib.suppress(Stopped):
            study.runs.train(config, 0, 0, checkpoint_seconds=0, watch=watch)
    folder = study.runs.unit_dir(config, 0, 0)
    result = json.loads((folder / "result.json").read_text())
    times = {"train_seconds", "processor_seconds", "environment"}
    return folder, {name: value for name, value in result.items() if name not in times}


@pytest.mark.parametrize(
    ("loss", "given", "names"),
    [
        (
            "c2+groups+dance",
            {"method": "ccp", "pool_size": 4, "ccp_start": 2, "max_steps": 4, **SIZES},
            ["disc", "groups", "dance", "concatenated"],
        ),
        ("pnca+shared+intra", {**SIZES, "classes_per_batch": 3}, ["disc", "shared", "intra", "concatenated"]),
        pytest.param("c1+xbm+dance", SIZES, ["disc", "dance", "concatenated"], marks=pytest.mark.release),
        ("margin+shared", {"single_encoder": True, "embedding_dim": 16}, []),
        pytest.param(
            "margin+distance+shared",
            {"shared_triplets": "permuted", **SIZES},
            ["disc", "shared", "concatenated"],
            marks=pytest.mark.release,
        ),
    ],
)
def test_a_run_tells_the_figures_of_each_feature(loss, given, names, study):
    """Those of all tasks at once are asked for in `fair_eval_test`."""
    folder, result = trained(study, config_of(study, loss, **{"max_steps": 2, **given}))
    assert sorted(result.get("features", [])) == sorted(names)
    saved = np.load(folder / "test_embeddings.npz")["queries"]
    again = load_trained_model(folder, dataset=study.dataset)
    images = again.inputs(again.dataset.test)
    np.testing.assert_allclose(again.model.embed(images), saved, atol=1e-5)
    if names:
        assert result["features"]["concatenated"]["MAP@R"] == pytest.approx(result["test"]["MAP@R"])
        sizes = [result["features"][name]["dim"] for name in names[:-1]]
        lengths = [np.linalg.norm(part, axis=1) for part in np.split(saved, np.cumsum(sizes)[:-1], axis=1)]
        if again.config.normalization == "unit":  # CCP's recipe only clips
            np.testing.assert_allclose(lengths, 1.0, atol=1e-5)
        assert np.max(lengths) < 1 + 1e-5


def test_a_run_tells_the_figures_of_each_prefix(study):
    config = config_of(study, "triplet+distance+xbm", max_steps=2, matryoshka="2,8", embedding_dim=16)
    loss = build.build_loss(config, 4)
    assert loss.memory.embedding_dim == 16
    assert [losses.loss_of_kind(part, losses.MinedLoss) is part for part in loss.loss.parts] == [True] * 3
    folder, result = trained(study, config)
    saved = np.load(folder / "test_embeddings.npz")
    figures = result["features"]
    assert {name: figures[name]["dim"] for name in figures} == {"first 2": 2, "first 8": 8, "first 16": 16}
    assert [line[0] for line in feature_lines([figures])] == ["first 2", "first 8", "first 16"]
    assert figures["first 16"]["MAP@R"] == pytest.approx(result["test"]["MAP@R"])
    prefixes = saved["queries"][:, :2] / np.linalg.norm(saved["queries"][:, :2], axis=1, keepdims=True)
    expected = retrieval.evaluate_retrieval(prefixes, saved["query_labels"]).as_dict()
    assert figures["first 2"]["MAP@R"] == pytest.approx(expected["MAP@R"], abs=1e-3)
    assert figures["first 2"]["MAP@R"] != pytest.approx(figures["first 16"]["MAP@R"], abs=1e-3)


def test_a_distilled_run_embeds_without_its_larger_embeddings(study):
    dims = {"s2sd_dims": "24,32", "s2sd_start": 1, "s2sd_temperature": 0.5}
    config = config_of(study, "margin+distance+s2sd", max_steps=2, embedding_dim=16, **dims)
    folder, _ = trained(study, config)
    again = load_trained_model(folder, dataset=study.dataset)
    loss = again.model.metric_loss
    assert (loss.branch_dims, loss.start_step, loss.temperature) == ((24, 32), 1, 0.5)
    assert loss.feature_dim == again.model.backbone.output_shape[-1]
    assert len({part.seed for part in loss.parts}) == 3
    assert int(loss.step.numpy()) == 2
    saved = np.load(folder / "test_embeddings.npz")["queries"]
    images = again.inputs(again.dataset.test)
    assert saved.shape[1] == 16
    np.testing.assert_allclose(again.model.embed(images), saved, atol=1e-5)


@pytest.mark.parametrize(
    ("loss", "given", "message"),
    [
        ("c2+s2sd", {"method": "ccp"}, "--loss with --method=ccp: received 'c2.s2sd', expected a loss without s2sd"),
        ("c2+s2sd", {"matryoshka": "2"}, "--matryoshka=2 does not go with c2.s2sd: larger embeddings"),
        ("c2+s2sd", {"s2sd_dims": "512,0"}, "--s2sd_dims: received '512,0', expected numbers greater than 0"),
        ("c2+s2sd", {"pooling": "gsp"}, "--pooling with --loss=c2.s2sd: received 'gsp on .* with one linear layer"),
    ],
)
def test_what_does_not_go_with_distillation_is_refused(loss, given, message, study):
    with pytest.raises(InvalidInput, match=message):
        build.build_head(config_of(study, loss, **given))


def test_batches_are_chosen_by_the_embeddings_at_the_start_of_each_period(study):
    remember = data.MemoryBatches.remember
    with mock.patch.object(data.MemoryBatches, "remember", autospec=True, side_effect=remember) as calls:
        trained(study, config_of(study, "margin+distance", sampler="frechet", max_steps=4, embedding_dim=16))
    first, second = (call.args[1] for call in calls.call_args_list)
    assert first.shape == second.shape == (len(calls.call_args.args[0].memory), 16)
    assert np.any(first != second)
    with pytest.raises(InvalidInput, match="--sampler: received 'frechet', expected one of labels alone"):
        config_of(study, "c2", "ccp", sampler="frechet")


@pytest.mark.parametrize("schedule", ["linear", "non_linear"])
def test_a_curriculum_moves_negatives_from_far_to_near(schedule, study):
    given = {"pads_bins": 13, "pads_estimator": schedule, "pads_steps": 2, "max_steps": 8}
    folder, _ = trained(study, config_of(study, "margin+pads", **given), (2,) if schedule == "linear" else ())
    record = np.load(folder / "sampling.npz")
    np.testing.assert_array_equal(record["steps"], [2, 4, 6, 8])
    found, places = record["probabilities"], np.arange(13)
    if schedule == "linear":  # .4 of 1.3; at half of the time the ends are those of bins
        expected = [[*np.flatnonzero(row > 0.01)] for row in found[[0, 2, 3]]]
        assert expected == [[7, 8, 9, 10], [2, 3, 4, 5], [0, 1, 2, 3]]
        assert all(len(set(row[row > 0.01])) == 1 for row in found)
    else:
        weights = np.stack([(1 - places / 12) ** (10 * share) for share in (0.25, 0.5, 0.75, 1.0)])
        np.testing.assert_allclose(found, weights / weights.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-9)
    with pytest.raises(InvalidInput, match="--pads_start would have no effect"):
        config_of(study, "margin+pads", pads_estimator=schedule, pads_start="all")


def test_the_policy_sees_the_chosen_figures_and_windows(study):
    config = config_of(
        study, "margin+pads", **PADS, pads_state="nmi+distances", pads_windows="2,64", pads_reward="recall"
    )
    (pads,) = config.methods_of(Pads)
    teacher = pads.policy(pads.distribution(), dict, 100, 0, lambda decision: None)
    assert (teacher.metrics, teacher.reward) == (("NMI", "pi_intra", "pi_inter"), ("R@1",))
    assert teacher.history.size(10) == (20 + 2) * 3 + 10 + 1
    assert "pads_state" not in config_of(study, "margin+pads", **PADS).stored()
    with pytest.raises(InvalidInput, match="--pads_windows: received '2,x', expected whole numbers above 0"):
        config_of(study, "margin+pads", pads_windows="2,x")


def test_prefixes_beside_slices_or_a_policy_are_refused(study):
    for loss, given, why in ((DIVA, SIZES, "several features, which are slices"), ("margin+pads", PADS, "pads, one")):
        with pytest.raises(InvalidInput, match=f"--matryoshka=2 does not go with .*: {why}"):
            config_of(study, loss, matryoshka="2", **given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "given"),
    [
        pytest.param(DIVA, SIZES, marks=pytest.mark.release),
        pytest.param("margin+distance+shared", SIZES, marks=pytest.mark.release),
        ("margin+distance+groups", {"num_groups": 3, **SIZES}),
        pytest.param("margin+pads", {**PADS, "pads_steps": 1}, marks=pytest.mark.release),
        ("margin+dance", {"sampler": "coreset", **SIZES}),
        pytest.param(
            "c2",
            {"hier_weight": 0.5, "hier_proxies": 8, "hier_neighbors": 4, "proxy_multiplier": 10.0},
            marks=pytest.mark.release,
        ),
    ],
)
def test_a_run_that_is_stopped_and_resumed_is_that_of_one_go(loss, given, tmp_path):
    """Stopped in the middle of a queue, of two tasks' turns, of an epoch between groupings, and between decisions.

    Decisions are also stopped and resumed in `policy_adapted_sampling_test`.
    """
    found = []
    for name, stops in (("whole", ()), ("parts", (1,))):
        study = TinyStudy(tmp_path / name)
        folder, result = trained(study, config_of(study, loss, max_steps=2, steps_per_evaluation=1, **given), stops)
        files = [np.load(folder / name) for name in ("test_embeddings.npz", "sampling.npz") if (folder / name).exists()]
        arrays = {key: of[key] for of in files for key in of}
        found.append((result, arrays, (folder / "metrics.jsonl").read_text().count("validation")))
    assert found[0][0] == found[1][0]
    assert found[0][2] == found[1][2]
    for name, expected in found[0][1].items():
        np.testing.assert_array_equal(found[1][1][name], expected, err_msg=name)


@pytest.mark.parametrize("group_by", ["standardized", "slice", pytest.param("features", marks=pytest.mark.release)])
def test_groups_are_those_of_the_images_that_are_learned_from(group_by, study):
    """Found again from the features (or the slice) of the weights that a run began its last round with."""
    given = {"num_groups": 3, "group_by": group_by, "feature_schedule": "joint", **SIZES}
    config = config_of(study, "margin+distance+groups", max_steps=2, **given)
    rounds = []

    def group(regrouping, whole=milbich_dml.Regrouping.group):
        number = regrouping.state()["rounds"]
        whole(regrouping)
        vectors = [regrouping.vectors(of_round) for of_round in (number, number + 1)]
        rounds.append((number, vectors[0], np.array(regrouping.loss.groups), vectors[1].shape[1]))

    with mock.patch.object(milbich_dml.Regrouping, "group", group):
        unit = Unit(config, study.dataset, 0, 0, study.begin(config), "hash", Places())
        unit.train()
    (first, vectors, groups, dim_of_next), *later = rounds
    assert first == 0
    assert [number for number, *_ in later] == [
        *range(1, 1 + 2 // (config.group_epochs * unit.batches.batches_per_epoch))
    ]
    assert len(vectors) == len(groups) == len(unit.training)
    inertia = sum(
        np.var(vectors[groups == group], axis=0).sum() * (groups == group).sum() for group in np.unique(groups)
    )
    assert inertia < 0.9 * np.var(vectors, axis=0).sum() * len(vectors)
    result = json.loads((unit.run.path / "result.json").read_text())["features"]["groups"]
    assert 1 <= result["classes_per_group"] <= unit.training.num_classes
    assert result["groups"] == 3
    with mock.patch("experiments.runs.trained_model.changed_identity", return_value=None):  # its hash is made up
        backbone = load_trained_model(unit.run.path, dataset=study.dataset).model.backbone
    assert vectors.shape[1] == backbone.output_shape[-1] != result["dim"]  # the first round has no slice to go by
    assert (dim_of_next == result["dim"]) == (group_by == "slice")
    if group_by != "features":
        means = [np.mean(vectors[unit.training.labels == label], axis=0) for label in range(unit.training.num_classes)]
        assert np.abs(means).max() < 1e-5


def test_pads_watches_training_images_alone_and_keeps_its_decisions(study):
    config = config_of(study, "margin+pads", **PADS)
    split = split_of(study.dataset, config, 0, 0)
    whole = split_of(study.dataset, config_of(study, "margin"), 0, 0)
    assert whole.watched is None
    assert len(split.training) + len(split.watched) == len(whole.training)
    for part in ("queries", "gallery"):
        assert getattr(split, part) is None or len(getattr(split, part)) == len(getattr(whole, part))

    def images(*parts):
        return sorted(image.tobytes() for part in parts for image in part.arrays)

    assert images(split.training, split.watched) == images(whole.training)
    assert not {*images(split.watched)} & {*images(split.queries, study.dataset.test)}
    folder, result = trained(study, config)
    record = np.load(folder / "sampling.npz")
    assert result["sampling"] == {"decisions": 2, "watched_images": len(split.watched)}
    np.testing.assert_array_equal(record["steps"], [3, 6])
    np.testing.assert_allclose(record["probabilities"].sum(axis=1), 1.0)
    factors = np.array([0.8, 1.0, 1.25])[record["actions"][0]]
    expected = record["probabilities"][0] * factors
    np.testing.assert_allclose(record["probabilities"][1], expected / expected.sum(), rtol=1e-5)
    assert np.isnan(record["rewards"][0])
    assert record["rewards"][1] in (-1.0, 0.0, 1.0)


def test_each_task_and_each_fold_draws_noise_of_its_own_and_old_runs_draw_as_before(study):
    config = config_of(study, "margin+distance+shared+intra", seed=7, **SIZES)
    seeds = []
    for seed in (100, 200):
        found = build.build_loss(config, 4, seed)
        mined = [losses.loss_of_kind(part, losses.MinedLoss) for part in found.parts[:3]]
        seeds += [each.seed for each in mined]
    assert seeds == [100, 101, 102, 200, 201, 202]
    assert build.build_loss(config_of(study, "margin+distance", seed=7), 4, 100).seed == 7
    assert build.build_loss(config_of(study, "margin+pads", seed=7), 4, 100).seed == 100


def test_tasks_of_weight_zero_leave_the_first_feature_as_it_is_alone(study):
    """The same first weights, seed and images: the kernel's first columns, the backbone and the boundaries.

    Bit for bit where products with 4 and with 12 columns are added up alike. With the kernels of AVX2 they are not; a
    task that reached the first feature would move it by whole steps of Adam (1e-3).
    """
    given = {"samples_per_class": 4, "weight_decay": 1e-4}
    plain = config_of(study, "margin+distance", embedding_dim=4, **given)
    none = {"decorrelation": 0.0, "feature_weight": 0.0, "embedding_dim": 16}
    features = config_of(study, DIVA, **given, **none)
    found = []
    for config in (plain, features):
        unit = Unit(config, study.dataset, 0, 0, study.begin(config), "hash", Places())
        tf.keras.utils.set_random_seed(0)
        model = build.build_model(config, unit.dataset, unit.training.num_classes, seed=config.seed)
        batches = iter(unit.batches_from(0))
        first = next(batches)
        model.build_from_batch(*first)
        if found:
            kernel = np.concatenate([found[0][0], np.ones((16, 12), np.float32)], axis=1)
            model.head.projection.kernel.assign(kernel)
            for weight, value in zip(model.backbone.weights, found[0][1]):
                weight.assign(value)
        start = model.head.projection.kernel.numpy()[:, :4], [weight.numpy() for weight in model.backbone.weights]
        model.compile_training(unit.optimizer(model))
        reported = [float(model.train_step(batch)["loss"]) for batch in (first, *(next(batches) for _ in range(3)))]
        boundaries = losses.loss_of_kind(model.metric_loss, losses.MarginLoss).boundaries.numpy()
        kernel = model.head.projection.kernel.numpy()[:, :4]
        network = [weight.numpy() for weight in model.backbone.trainable_weights]  # a second view has statistics, too
        found.append((*start, reported, kernel, boundaries, network))
    for plain_values, values in zip(*found):
        for one, other in zip(plain_values, values, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert np.abs(found[0][0] - found[0][3]).max() > 1e-3
