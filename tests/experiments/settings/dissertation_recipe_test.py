import pytest

from experiments.published.conventional import revisiting_conditions
from experiments.recipes import draft_of, resolve

DIVA = "margin+distance+shared+intra+dance"


def config_of(loss, dataset="cub200", recipe="revisiting", budget="full", **overrides):
    return resolve(dataset, loss, "gap", recipe, budget, overrides)


@pytest.mark.parametrize(
    ("dataset", "backbone", "values", "drop"),
    [
        ("cub200", "resnet50", (1500.0, 0.3, 30), (60 * 52, 0.3)),
        ("cars196", "resnet50", (100.0, 0.1, 30), (70 * 71, 0.3)),
        ("sop", "resnet50", (300.0, 0.2, 70), (70 * 531, 0.3)),
        ("cub200", "bn_inception", (300.0, 0.1, 30), (70 * 52, 0.3)),
        ("cars196", "bn_inception", (100.0, 0.1, 30), (160 * 71, 0.3)),
        ("sop", "bn_inception", (50.0, 0.1, 70), (100 * 531, 0.3)),
    ],
)
def test_diva_has_the_values_of_table_4_1(dataset, backbone, values, drop):
    config = config_of(DIVA, dataset, backbone=backbone)
    assert (config.decorrelation, config.feature_weight, config.dance_queue_batches) == values
    assert (config.rate_drop_step, config.rate_drop_factor) == drop
    assert (config.classes_per_batch, config.samples_per_class) == (28, 4)
    assert (config.dance_temperature, config.dance_weights, config.feature_schedule) == (0.01, "anchor", "joint")


@pytest.mark.parametrize(
    ("row", "cub_epochs", "sop_epochs", "crop", "decay", "images"),
    [
        (("margin+distance", 128, "resnet50"), 150, 100, "thesis", 4e-4, 2),  # the benchmark, chapter 2
        (("ms", 512, "resnet50"), 150, 100, "thesis", 4e-4, 2),
        (("margin+distance", 256, "resnet50"), 150, 100, "reduced", 4e-4, 4),
        (("npair", 256, "resnet50"), 150, 100, "reduced", 4e-4, 2),
        (("pnca+shared", 256, "resnet50"), 300, 200, "reduced", 4e-4, 1),  # two tasks that take turns
        (("margin+distance", 512, "bn_inception"), 200, 150, "reduced", 5e-4, 2),
        (("margin+distance+shared", 512, "bn_inception"), 200, 150, "reduced", 5e-4, 2),  # its tasks share each step
        ((DIVA, 512, "resnet50"), 200, 150, "reduced", 5e-4, 4),
        (("margin+pads", 128, "resnet50"), 150, 100, "reduced", 4e-4, 2),
    ],
)
def test_a_row_of_a_later_chapter_has_what_that_chapter_prints(row, cub_epochs, sop_epochs, crop, decay, images):
    loss, dim, backbone = row
    for dataset, steps, epochs in (("cub200", 52, cub_epochs), ("sop", 531, sop_epochs)):
        config = config_of(loss, dataset, embedding_dim=dim, backbone=backbone)
        assert config.max_steps == epochs * steps
        assert (config.crop, config.weight_decay, config.samples_per_class) == (crop, decay, images)
        most = 100 if dataset == "cub200" and images == 1 else 112
        assert config.classes_per_batch * config.samples_per_class == most
        assert config.image_size == revisiting_conditions(loss, dim, backbone)["image_size"]


def test_a_batch_of_one_image_per_class_fits_the_classes_that_are_trained():
    config = resolve("cub200", "pnca", "gap", "revisiting", "full", {"embedding_dim": 256}, protocol="held_out")
    assert (config.samples_per_class, config.classes_per_batch) == (1, 90)


def test_two_tasks_of_chapter_4_have_its_decorrelation_and_weight():
    config = config_of("margin+distance+shared", embedding_dim=512, backbone="bn_inception")
    assert (config.feature_schedule, config.decorrelation, config.feature_weight) == ("joint", 300.0, 0.1)


def test_the_run_scripts_differ_from_the_table():
    printed, code = (config_of(DIVA, "cars196", recipe) for recipe in ("thesis", "published_code"))
    values = [(c.decorrelation, c.feature_weight) for c in (printed, code)]
    assert values == [(100.0, 0.1), (100.0, 0.15)]


def test_shared_features_take_turns_and_twice_the_steps():
    plain, shared = config_of("margin+distance"), config_of("margin+distance+shared")
    assert (shared.feature_schedule, shared.feature_weight, shared.decorrelation) == ("in_turn", None, 1000.0)
    assert (shared.max_steps, shared.steps_per_evaluation) == (2 * plain.max_steps, 2 * plain.steps_per_evaluation)
    joint = config_of("margin+distance+shared", feature_schedule="joint")
    assert (joint.max_steps, joint.feature_weight) == (plain.max_steps, 0.3)
    assert config_of("margin+shared", single_encoder=True).decorrelation == 0.0
    assert config_of("margin+shared", shared_triplets="permuted").shared_negatives is None


@pytest.mark.parametrize(
    ("dataset", "of_code"),
    [("cub200", (30, 2500.0)), ("cars196", (200, 500.0)), ("sop", (50, 250.0)), ("inshop", (150, 250.0))],
)
def test_groups_are_as_many_as_in_the_code_of_mic(dataset, of_code):
    printed, code = (config_of("margin+distance+groups", dataset, recipe) for recipe in ("thesis", "published_code"))
    assert (code.num_groups, code.decorrelation) == of_code
    assert (code.group_epochs, code.group_by) == (4, "slice")
    assert (printed.num_groups, printed.decorrelation, printed.group_by) == (of_code[0], 1000.0, "standardized")
    plain = config_of("margin+distance", dataset, "thesis")
    assert (printed.feature_schedule, printed.max_steps) == ("in_turn", 2 * plain.max_steps)
    assert config_of("c1+groups+intra", dataset, "thesis").feature_schedule == "joint"


def test_pads_has_the_printed_values_and_gentler_ones_where_training_is_short():
    printed, short = config_of("margin+pads", recipe="thesis"), config_of("margin+pads", "glyphs", "thesis", "demo")
    assert (printed.pads_bins, printed.pads_steps, printed.pads_images, printed.pads_outside) == (30, 30, 0.15, 1e-15)
    assert (short.pads_outside, short.pads_by) == (1e-2, "images")
    assert config_of("margin+pads", "sop").pads_by == "classes"
    code = config_of("margin+pads", recipe="published_code")
    assert (code.pads_reward, code.pads_draws) == ("recall", "candidates")
    assert config_of("margin+pads", pads_start="all").pads_outside is None


def test_a_drop_that_does_not_fit_is_left_out():
    assert config_of(DIVA, max_steps=520).rate_drop_step is None
    assert config_of(DIVA, plateau_patience=3).rate_drop_step is None


def test_every_value_names_its_layer():
    sources = draft_of("glyphs", DIVA, "gap", "thesis", "full", {}).sources
    assert sources["feature_weight"] == "ours, after DiVA, table 4.1"
    assert sources["shared_positives"] == "published code of shared features"
    sources = draft_of("glyphs", "margin+pads", "gap", "thesis", "full", {}).sources
    assert sources["pads_start"] == "PADS, chapter 5"
