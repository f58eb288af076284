import numpy as np

from milbich_dml.distance_bins import bin_edges, has_center_in


def test_bins_of_equal_width():
    np.testing.assert_allclose(bin_edges(4, 0.0, 2.0), [0.0, 0.5, 1.0, 1.5, 2.0])


def test_centers_on_the_ends_count():
    edges = bin_edges(4, 0.0, 2.0)  # centres .25, .75, 1.25, 1.75
    assert has_center_in(edges, (0.75, 1.25)).tolist() == [False, True, True, False]
    assert has_center_in(edges, (0.3, 0.7)).tolist() == [False] * 4
