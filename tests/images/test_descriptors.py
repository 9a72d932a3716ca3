"""Descriptors of images made by code: what a change of the image changes in them, and what it does not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from multikernel.images import PHOG, ColorHistogram, GaborEnergies, LocalBinaryPatterns, VisualWords
from multikernel.images.local import PATCHES, edge_sift, hsv, opponent_sift, self_similarity, sift, texture

pytest.importorskip("skimage")
pytest.importorskip("PIL")

SIDE = 64


def ramp(direction=0.0, low=0.2, high=0.8):
    """Lighter in one direction (0: to the right, 90°: down)."""
    rows, columns = np.mgrid[:SIDE, :SIDE] / (SIDE - 1) - 0.5
    along = columns * np.cos(direction) + rows * np.sin(direction)
    light = low + (high - low) * (along - along.min()) / np.ptp(along)
    return np.repeat(light[..., None], 3, axis=2).astype(np.float32)


def noise(seed=0, channels=3, side=SIDE):
    """Smooth enough that neighbours have to do with each other."""
    from scipy.ndimage import gaussian_filter

    image = gaussian_filter(np.random.default_rng(seed).random((side, side, channels)), (1.5, 1.5, 0), mode="wrap")
    image = (image - image.min()) / np.ptp(image)
    return np.broadcast_to(image, (side, side, 3)).astype(np.float32)


def flat(colour):
    return np.broadcast_to(np.array(colour, np.float32), (SIDE, SIDE, 3)).copy()


def one(transformer, image):
    return transformer.transform([image])[0]


# -- what each cue sees ---------------------------------------------------------------------------------------


def changed_images():
    """An image of light and tint that repeats at its borders, and what can happen to it."""
    from scipy.ndimage import gaussian_filter, zoom

    def field(seed, sigma):
        values = gaussian_filter(np.random.default_rng(seed).random((96, 96)), sigma, mode="wrap")
        return ((values - values.min()) / np.ptp(values))[..., None]

    light, tint, weights = 0.1 + 0.6 * field(0, (1.5, 4)), field(1, 2), np.array([0.2125, 0.7154, 0.0721])

    def tinted(channel):  # without a change of luminance
        hue = np.eye(3)[channel] - weights[channel]
        return light + 0.3 * tint * hue / np.linalg.norm(hue)

    image = tinted(0)
    return {
        "as it is": image,
        "turned": np.rot90(image).copy(),
        "moved": np.roll(image, (36, 24), axis=(0, 1)),
        "enlarged": zoom(image, (3, 3, 1), order=1, grid_mode=True, mode="grid-wrap"),
        "brighter": image + 0.1,
        "of another hue": tinted(2),
    }


COLOURS = {"HSV", "RGB", "hsv"}
CUES = {
    "PHOG": PHOG(grid=1),
    "LBP": LocalBinaryPatterns(grid=1),
    "gist": GaborEnergies(grid=1),
    "HSV": ColorHistogram(),
    "RGB": ColorHistogram(space="rgb", bins=(4, 4, 4)),
    **{patches: VisualWords(patches=patches, n_words=12, random_state=0) for patches in PATCHES},
}
SEEN_BY = {
    "turned": CUES.keys() - COLOURS - {"texture"},
    "moved": set(),
    "enlarged": CUES.keys() - COLOURS - {"PHOG", "gist"},
    "brighter": COLOURS,
    "of another hue": COLOURS | {"opponent-sift"},
}


@pytest.mark.parametrize("name", CUES)
def test_a_cue_sees_a_change_if_it_should_and_only_then(name):
    images = changed_images()
    rows = CUES[name].set_params(size=None).fit_transform(list(images.values()))
    first, *others = rows / rows.sum(axis=1, keepdims=True)
    moved = {change: abs(row - first).sum() / 2 for change, row in zip(SEEN_BY, others)}  # share of the counts
    seen = {change for change, share in moved.items() if share > 0.18}
    assert seen == {change for change, cues in SEEN_BY.items() if name in cues}, moved


# -- gradients: PHOG ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(8))
def test_a_ramp_has_one_direction(k):
    histogram = one(PHOG(orientations=8, grid=1), ramp(k * np.pi / 4))
    assert histogram[k] > 0.95 * histogram.sum()


def test_a_quarter_turn_of_the_image_is_a_quarter_turn_of_the_directions_and_of_the_cells():
    image = noise()
    before = one(PHOG(orientations=8, grid=2), image).reshape(2, 2, 8)
    after = one(PHOG(orientations=8, grid=2), np.rot90(image, -1).copy()).reshape(2, 2, 8)  # clockwise
    assert_allclose(after, np.roll(np.rot90(before, -1), 2, axis=-1), rtol=2e-2, atol=2e-2)


def test_unsigned_directions_do_not_tell_an_image_from_its_negative_and_signed_ones_do():
    image = ramp(0.3)
    negative = 1 - image
    assert_allclose(one(PHOG(signed=False), image), one(PHOG(signed=False), negative), atol=1e-3)
    assert_allclose(one(PHOG(grid=1), image), np.roll(one(PHOG(grid=1), negative), 20), atol=1e-2)


def test_gradients_see_neither_brightness_nor_colour_of_the_same_luminance():
    image = 0.5 * noise(channels=1)
    assert_allclose(one(PHOG(), image + 0.4), one(PHOG(), image), atol=0.05)
    assert_allclose(one(PHOG(), 0.5 * image), 0.5 * one(PHOG(), image), atol=0.05)
    red = flat([1, 0, 0]) * (image / 0.2125)[..., :1].clip(0, 1)
    grey = np.repeat(red[..., :1] * 0.2125, 3, axis=2)
    assert_allclose(one(PHOG(), red), one(PHOG(), grey), atol=0.15)  # 8 bits


def test_cells_say_where():
    image = flat([0.5] * 3)
    image[8:24, 40:56] = noise(side=16)  # upper right
    cells = one(PHOG(grid=2), image).reshape(4, -1).sum(axis=1)
    assert_array_equal(cells > 0.1, [False, True, False, False])


# -- colours --------------------------------------------------------------------------------------------------


def test_a_change_of_hue_moves_the_colours_and_leaves_shape_and_texture():
    image = 0.2 + 0.6 * noise(channels=1)
    tinted = image * np.array([1.0, 0.9, 0.8], np.float32)
    swapped = tinted[..., [1, 2, 0]]
    for colour in (ColorHistogram(), ColorHistogram(space="rgb", bins=(4, 4, 4))):
        a, b = one(colour, tinted), one(colour, swapped)
        assert a.sum() == b.sum() == SIDE**2
        assert np.abs(a - b).sum() > 0.5 * SIDE**2
    # of the same luminance
    light = np.array([0.2125, 0.7154, 0.0721], np.float32)
    scale = (tinted @ light) / (swapped @ light)
    assert (
        np.abs(one(PHOG(), tinted) - one(PHOG(), swapped * scale[..., None])).max() < 0.05 * one(PHOG(), tinted).max()
    )


def test_moving_pixels_about_does_not_change_their_colours():
    image = noise()
    shuffled = np.random.default_rng(1).permutation(image.reshape(-1, 3)).reshape(image.shape)
    assert_array_equal(one(ColorHistogram(), image), one(ColorHistogram(), shuffled))
    assert not np.allclose(one(PHOG(), image), one(PHOG(), shuffled), rtol=0.2)


def test_hues_lie_on_a_circle():
    def point(colour):
        return hsv(flat(colour)).vectors[0]

    red, green, blue = point([1, 0, 0]), point([0, 1, 0]), point([0, 0, 1])
    distances = [np.linalg.norm(a - b) for a, b in ((red, green), (green, blue), (blue, red))]
    assert_allclose(distances, np.sqrt(3), rtol=1e-5)
    assert_allclose(point([0.4, 0.4, 0.4]), [0, 0, 0.4], atol=1e-6)
    assert np.linalg.norm(point([1, 0.01, 0]) - point([1, 0, 0.01])) < 0.05  # hues of 0.002 and 0.998


# -- SIFT -----------------------------------------------------------------------------------------------------


def middle(local):
    return local.vectors[np.hypot(local.rows - 0.5, local.columns - 0.5).argmin()]


@pytest.mark.parametrize("k", range(8))
def test_sift_of_a_ramp_has_its_direction_in_all_bins(k):
    bins = middle(sift(ramp(k * np.pi / 4), sides=(4,))).reshape(4, 4, 8)
    assert (bins.argmax(axis=-1) == k).all()
    assert_allclose(np.linalg.norm(bins), 1, rtol=1e-5)


def test_sift_by_its_definition():
    """Each bin sums, over pixels, gradient × cos⁸ of the angle to its direction × a triangle around its centre."""
    from scipy.ndimage import gaussian_filter

    side, image = 4, noise(3, channels=1)
    light = gaussian_filter(image @ np.array([0.2125, 0.7154, 0.0721]), side / 6)
    down, right = np.gradient(light)
    local = sift(image, step=16, sides=(side,))
    place = 5
    row, column = int(local.rows[place] * SIDE), int(local.columns[place] * SIDE)
    expected = np.zeros((4, 4, 8))
    for i, j, k in np.ndindex(4, 4, 8):
        at = row + round((i - 1.5) * side), column + round((j - 1.5) * side)
        for r, c in np.ndindex(SIDE, SIDE):
            near = max(0, 1 - abs(r - at[0]) / side) * max(0, 1 - abs(c - at[1]) / side)
            if near:
                along = down[r, c] * np.sin(k * np.pi / 4) + right[r, c] * np.cos(k * np.pi / 4)
                size = np.hypot(down[r, c], right[r, c])
                expected[i, j, k] += near * size * max(along / max(size, 1e-12), 0) ** 8
        expected[i, j, k] *= np.exp(-(((i - 1.5) / 2) ** 2 + ((j - 1.5) / 2) ** 2) / 2)
    expected = np.minimum(expected.ravel() / np.linalg.norm(expected), 0.2)
    assert_allclose(local.vectors[place], expected / np.linalg.norm(expected), atol=2e-4)


def test_sift_sees_neither_brightness_nor_contrast():
    image = noise(channels=1)
    for changed in (0.5 * image, 0.5 + 0.5 * image):
        assert_allclose(sift(changed, sides=(4,)).vectors, sift(image, sides=(4,)).vectors, atol=2e-3)


def test_sift_of_a_shifted_image_is_shifted():
    image = noise(side=128)
    local, moved = (sift(part, step=8, sides=(4,)) for part in (image[:96, :96], image[16:112, 16:112]))
    a, b = local.vectors.reshape(12, 12, -1), moved.vectors.reshape(12, 12, -1)
    assert_allclose(a[4:8, 4:8], b[2:6, 2:6], atol=1e-5)


def test_sift_at_twice_the_scale_of_an_image_twice_as_large():
    from scipy.ndimage import zoom

    image = noise(channels=1)
    large = zoom(image, (2, 2, 1), order=3, grid_mode=True, mode="grid-mirror")
    small = sift(image, step=8, sides=(4,)).vectors.reshape(8, 8, -1)[2:6, 2:6]
    double = sift(large, step=16, sides=(8,)).vectors.reshape(8, 8, -1)[2:6, 2:6]
    similarity = np.einsum("ijk,ijk->ij", small, double)
    assert similarity.min() > 0.9


def test_flat_patches_are_zero_and_not_noise():
    for image in (flat([0.3, 0.6, 0.9]), flat([0, 0, 0])):
        assert not sift(image).vectors.any()
        assert not opponent_sift(image).vectors.any()


def test_opponent_colours_see_an_edge_that_luminance_does_not():
    weights = np.array([0.2125, 0.7154, 0.0721])
    a, b = np.array([0.8, 0.3, 0.2]), np.array([0.1, 0.45, 0.7])
    b *= (weights @ a) / (weights @ b)
    image = flat(a)
    image[:, SIDE // 2 :] = b
    assert not sift(image, sides=(4,)).vectors.any()
    red_green, yellow_blue, _ = np.split(opponent_sift(image, sides=(4,)).vectors, 3, axis=1)
    assert red_green.any()
    assert yellow_blue.any()


def test_opponent_sift_of_a_grey_image_is_sift_of_its_light():
    image = noise(channels=1)
    red_green, yellow_blue, light = np.split(opponent_sift(image, sides=(4,)).vectors, 3, axis=1)
    assert not red_green.any()
    assert not yellow_blue.any()
    assert_allclose(light, sift(image, sides=(4,)).vectors, atol=2e-3)


def test_edges_are_where_a_square_ends():
    image = flat([0.2] * 3)
    image[16:48, 16:48] = 0.9
    local = edge_sift(image, most=10_000)
    distance = np.maximum(abs(local.rows - 0.5), abs(local.columns - 0.5)) * SIDE
    assert len(distance) > 100
    assert np.abs(distance - 16).max() <= 2


# -- texture and self-similarity ------------------------------------------------------------------------------


def test_texture_does_not_see_how_the_image_is_turned():
    image = noise(channels=1)
    turned = texture(np.rot90(image).copy(), step=1).vectors.reshape(SIDE, SIDE, -1)
    assert_allclose(turned, np.rot90(texture(image, step=1).vectors.reshape(SIDE, SIDE, -1)), atol=1e-4)


def test_texture_tells_coarse_from_fine():
    columns = np.arange(SIDE)
    strongest = []
    for period in (6, 12, 24, 48):
        wave = np.broadcast_to((0.5 + 0.4 * np.sin(2 * np.pi * columns / period))[None, :, None], (SIDE, SIDE, 3))
        edges = texture(wave.astype(np.float32)).vectors[:, ::3].mean(axis=0)
        strongest.append(edges.argmax())
    assert strongest == [0, 1, 2, 3]


def test_self_similarity_does_not_see_colours_but_their_layout():
    """Two images with the same pattern in other colours have like descriptors, another pattern has not."""
    stripes = (np.arange(SIDE) // 6) % 2

    def image(light, dark, across=False):
        cells = np.where(stripes[:, None], light, dark)[None].repeat(SIDE, axis=0).astype(np.float32)
        return cells.transpose(1, 0, 2).copy() if across else cells

    def inner(picture):
        local = self_similarity(picture)
        inside = (abs(local.rows - 0.5) < 0.2) & (abs(local.columns - 0.5) < 0.2)
        return local.vectors[inside]

    a = inner(image([0.9, 0.2, 0.2], [0.1, 0.1, 0.5]))
    b = inner(image([0.2, 0.8, 0.3], [0.3, 0.1, 0.1]))
    c = inner(image([0.9, 0.2, 0.2], [0.1, 0.1, 0.5], across=True))
    assert np.abs(a - b).mean() < 0.05
    assert np.abs(a - c).mean() > 0.2
    assert (a.min(), a.max()) == (0, 1)


# -- patterns and waves ---------------------------------------------------------------------------------------


def test_patterns_see_the_order_of_grey_levels_alone():
    image = np.rint(100 * noise(channels=1)).astype(np.uint8)
    a, b = one(LocalBinaryPatterns(), image), one(LocalBinaryPatterns(), 2 * image + 10)
    assert_array_equal(a, b)
    assert a.sum() == SIDE**2
    assert np.count_nonzero(one(LocalBinaryPatterns(grid=1), flat([0.4] * 3))) <= 9  # of the border and the inside


@pytest.mark.parametrize("k", range(4))
def test_energy_is_largest_at_the_wave_that_is_there(k):
    rows, columns = np.mgrid[:128, :128]
    angle, frequency = k * np.pi / 4, 0.125
    wave = 0.5 + 0.5 * np.sin(2 * np.pi * frequency * (columns * np.cos(angle) + rows * np.sin(angle)))
    energies = one(GaborEnergies(orientations=4, grid=1), np.repeat(wave[..., None], 3, axis=2))
    assert energies.argmax() == 1 * 4 + k
    assert_allclose(np.linalg.norm(energies), 1, rtol=1e-5)


def test_energies_do_not_see_brightness_or_contrast():
    image = noise(channels=1)
    for changed in (0.5 * image, 0.4 + 0.5 * image):
        assert_allclose(one(GaborEnergies(), changed), one(GaborEnergies(), image), atol=5e-3)


# -- words ----------------------------------------------------------------------------------------------------


def test_words_of_two_colours_are_these_colours_and_are_counted_in_their_cells():
    image = flat([1, 0, 0])[:60, :60]  # a multiple of the step
    image[:, 30:] = [0, 0, 1]
    words = VisualWords(patches="hsv", n_words=2, grid=2, random_state=0).fit([image])
    assert_allclose(np.sort(words.words_[:, 0]), [-0.5, 1.0], atol=1e-5)  # cosines of the hues
    cells = words.transform([image])[0].reshape(2, 2, 2)
    red = words.words_[:, 0].argmax()
    assert cells[:, 0, 1 - red].sum() == cells[:, 1, red].sum() == 0
    assert_array_equal(cells[0], cells[1])
    assert words.transform([image])[0].sum() == len(hsv(image).vectors)


EVERY = [PHOG(), ColorHistogram(), LocalBinaryPatterns(), GaborEnergies()]
EVERY += [VisualWords(patches=patches, n_words=3, grid=2, random_state=0) for patches in PATCHES]


@pytest.mark.parametrize("cue", EVERY, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (2, 2), (5, 3)])
def test_images_of_any_size_have_descriptors(cue, shape):
    row = cue.fit_transform([np.random.default_rng(0).random((*shape, 3))])[0]
    assert row.shape == (cue.n_columns,)
    assert np.isfinite(row).all()
    assert row.any() or shape == (1, 1)  # one pixel has no gradient


@pytest.mark.parametrize("patches", PATCHES)
def test_patches_lie_inside_the_image(patches):
    local = PATCHES[patches](noise()[:40, :30])
    assert len(local.vectors) == len(local.rows) == len(local.columns) > 0
    assert ((local.rows >= 0) & (local.rows < 1) & (local.columns >= 0) & (local.columns < 1)).all()
