import pytest

from benchmarks.retrieval_scaling import draw, exponent, measure_size, summary, table

FOUND = {
    1000: {"seconds": [2.0, 1.0, 3.0], "product_seconds": [1.0, 1.0, 1.0], "extra_gb": 0.1, "embeddings_gb": 0.05},
    2000: {"seconds": [8.0, 8.0, 8.0], "product_seconds": [4.0, 5.0, 4.0], "extra_gb": 0.2, "embeddings_gb": 0.1},
}


def test_figures_are_medians_and_the_slope_between_the_last_two():
    figures = summary(FOUND)
    assert (figures["seconds_1000"], figures["seconds_2000"]) == (2.0, 8.0)
    assert (figures["over_product_1000"], figures["over_product_2000"]) == (2.0, 2.0)
    assert figures["extra_gb_2000"] == 0.2
    assert figures["exponent"] == pytest.approx(2.0)
    assert exponent((10, 1.0), (1000, 100.0)) == pytest.approx(1.0)
    assert "exponent" not in summary({1000: FOUND[1000]})
    assert table(FOUND)[0] == ["1,000", "2 (1-3)", "1 (1-1)", "2.00", "0.100", "0.050"]


def test_a_small_size_is_measured_and_drawn(tmp_path):
    found = {size: measure_size(size, 16, repeats=1) for size in (300, 600)}
    assert found[600]["embeddings_gb"] == 600 * 16 * 4 / 1e9
    assert all(0 < figures["map_at_r"] < 1 and figures["seconds"][0] > 0 for figures in found.values())
    sampled = measure_size(600, 16, repeats=1, sample_queries=100)
    assert sampled["map_at_r"] == found[600]["map_at_r"]
    assert 0 < sampled["interval"][0] < sampled["interval"][1] < 1
    assert len(table({600: sampled})[0]) == 9
    assert summary({600: sampled})["sampled_over_exact_600"] > 0
    sharded = measure_size(600, 16, repeats=2, product=False, shards=3)
    assert len(table({600: sharded})[0]) == 8
    assert len(sharded["sharded_seconds"]) == 2
    assert summary({600: sharded})["sharded_over_one_600"] > 0
    assert len(measure_size(600, 16, repeats=2, product=False)["seconds"]) == 2
    alone = measure_size(600, 16, repeats=1, product=False)
    assert len(alone["seconds"]) == 1
    assert table({600: alone})[0][2:4] == ["-", "-"]
    assert [name for name in summary({600: alone}) if "product" in name] == []
    draw(tmp_path / "alone.png", {600: alone})
    draw(tmp_path / "scaling.png", found)
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
