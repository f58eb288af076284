import numpy as np

from common.data.collage_tiles import join_collages, join_tiles, split_tiles, tile_of


def test_tiles_are_joined_row_by_row_and_split_again():
    tiles = np.arange(2 * 4 * 3 * 3 * 2).reshape(2, 4, 3, 3, 2)
    images = join_tiles(tiles)
    assert images.shape == (2, 6, 6, 2)
    np.testing.assert_array_equal(images[1, :3, 3:], tiles[1, 1])
    np.testing.assert_array_equal(images[1, 3:, :3], tiles[1, 2])
    np.testing.assert_array_equal(split_tiles(images), tiles)


def test_the_target_goes_to_its_position_and_the_others_follow_in_order():
    targets, others = np.full((4, 2, 2, 1), 9), np.tile(np.arange(3)[:, None, None, None], (4, 1, 2, 2, 1))
    images = join_collages(targets, others, np.arange(4))
    expected = [[9, 0, 1, 2], [0, 9, 1, 2], [0, 1, 9, 2], [0, 1, 2, 9]]
    np.testing.assert_array_equal(split_tiles(images)[..., 0, 0, 0], expected)
    np.testing.assert_array_equal(tile_of(images, np.arange(4)), targets)
