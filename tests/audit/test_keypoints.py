"""Keypoints, their votes and maps, and the comparison of pixels, on pictures whose edits are known by arithmetic."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps

from longshot.audit import votes
from longshot.audit.keypoints import (
    Agreement,
    Keypoints,
    compare,
    describe,
    fit,
    frame,
    keypoints_of,
    mirror,
    shrink,
    tile_difference,
)
from longshot.audit.pairs import close_pictures, find_pairs
from longshot.audit.votes import propose
from longshot.data import leave_out_images, open_dataset


def _photo(seed: int, side: int = 192) -> Image.Image:
    """Blobs of two sizes: something to find at every place."""
    rng = np.random.default_rng(seed)
    layers = [
        Image.fromarray(rng.integers(0, 256, (n, n, 3), dtype=np.uint8)).resize(
            (side, side), Image.Resampling.BICUBIC
        )
        for n in (9, 30)
    ]
    return Image.blend(layers[0], layers[1], 0.4)


def _points(image: Image.Image) -> Keypoints:
    return keypoints_of(describe(image))


def _agreement(a: Image.Image, b: Image.Image, mirrored: bool = False) -> Agreement:
    how = fit(_points(a), _points(b), mirrored)
    if how is None:
        pytest.fail("no map was found")
    return compare(frame(a.convert("L")), frame(b.convert("L")), how)


def test_descriptors_of_a_mirror_image_need_no_pixels() -> None:
    image = _photo(1)
    ours, theirs = _points(image).mirrored(), _points(ImageOps.mirror(image))
    distance = ((ours.descriptors[:, None] - theirs.descriptors) ** 2).sum(2)
    near = distance.argmin(1)
    close = np.linalg.norm(ours.points[:, :2] - theirs.points[near, :2], axis=1) < 1.5
    assert close.mean() > 0.8
    np.testing.assert_array_equal(mirror(mirror(ours.descriptors)), ours.descriptors)


@pytest.mark.parametrize("degrees", [0, 10, 30, 90, 200])
def test_a_turn_is_told_in_degrees(degrees: int) -> None:
    image = _photo(2)
    turned = image.rotate(degrees, Image.Resampling.BICUBIC)
    how = fit(_points(image), _points(turned), False)
    assert how is not None and abs((how.turned - degrees + 180) % 360 - 180) <= 1
    assert _agreement(image, turned).is_copy


def test_a_crop_lies_where_it_was_cut() -> None:
    image = _photo(3)
    how = fit(_points(image.crop((48, 24, 144, 120))), _points(image), False)
    assert how is not None
    np.testing.assert_allclose(how.affine, [[0.5, 0, 48], [0, 0.5, 24]], atol=0.6)


def test_mirrored_pictures_agree_only_as_such() -> None:
    image = _photo(4)
    assert _agreement(image, ImageOps.mirror(image), mirrored=True).is_copy
    assert fit(_points(image), _points(ImageOps.mirror(image)), False) is None


def test_a_sign_spoils_as_many_windows_as_it_covers() -> None:
    image = _photo(5)
    covered = image.copy()
    ImageDraw.Draw(covered).rectangle((0, 0, 191, 47), fill="navy")
    agreement = _agreement(image, covered)
    assert agreement.is_copy and 0.15 < agreement.distance < 0.35
    ImageDraw.Draw(covered).rectangle((0, 0, 191, 110), fill="navy")
    assert not _agreement(image, covered).is_copy


def test_a_painted_border_is_not_compared() -> None:
    image = _photo(6)
    framed = Image.new("RGB", image.size, "black")
    framed.paste(image.crop((20, 20, 172, 172)), (20, 20))
    assert _agreement(framed, image).distance < 0.1


def test_with_few_matches_nearly_all_windows_must_agree() -> None:
    assert Agreement(0.35, 50, 1.0, 40).is_copy
    assert not Agreement(0.35, 50, 1.0, 8).is_copy
    assert Agreement(0.1, 50, 1.0, 8).is_copy
    assert not Agreement(0.0, 1, 1.0, 8).is_copy and not Agreement(0.0, 50, 0.2, 40).is_copy


def test_flat_pictures_have_no_keypoints_and_no_pairs() -> None:
    flat = np.array([describe(Image.new("RGB", (40, 40), colour)) for colour in ("white", "red")])
    assert not len(keypoints_of(flat[0]))
    assert propose(flat, flat, 5, True).shape == (0, 3)


def test_proposals_do_not_depend_on_the_size_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.array([describe(_photo(seed).rotate(20 * (seed % 2))) for seed in [*range(12), 3, 5]])
    pairs = propose(table, table, 4, True)
    assert {(3, 12, 0), (5, 13, 0)} <= set(map(tuple, pairs.tolist()))
    monkeypatch.setattr(votes, "_BLOCK", 5)
    np.testing.assert_array_equal(propose(table, table, 4, True), pairs)


@pytest.mark.long
def test_different_drawings_are_no_copies(shared: Path) -> None:
    drawings = open_dataset(shared / "data" / "omniglot")
    keys = drawings.keys.to_pylist()
    some = leave_out_images(drawings, [key for row, key in enumerate(keys) if row % 20], (), "drawings")
    assert not len(find_pairs(some, some, device="cpu"))


def test_unlike_photographs_of_a_class_are_no_copies(shared: Path) -> None:
    photographs = open_dataset(shared / "data" / "grocery128.zip")
    keys = photographs.keys.to_pylist()
    elsewhere = [key for key in keys if not key.startswith("Packages/Juice/")]
    juice = leave_out_images(photographs, elsewhere, (), "juice")
    some = leave_out_images(juice, juice.keys.to_pylist()[60:], (), "juice")
    assert len(some) == 60 and not len(find_pairs(some, some, device="cpu"))


class TestSmallPictures:
    """Copies that leave no keypoints: encoded or sized anew, without texture."""

    def test_differences_of_three_are_copies_and_of_six_are_not(self) -> None:
        small = np.tile(np.arange(768, dtype=np.uint8) // 4, (3, 1))
        small[1] += 3
        small[2] += 9
        pairs, difference = close_pictures(small, small, True)
        assert pairs.tolist() == [[0, 1]] and difference.tolist() == pytest.approx([3 / 255])

    def test_pictures_of_one_colour_are_compared_with_nothing(self) -> None:
        plain = np.tile(np.array([40, 250, 3], np.uint8), (2, 256))
        assert not len(close_pictures(plain, plain, True)[0])

    def test_pictures_that_look_like_many_others_are_no_copies(self) -> None:
        """Eleven of a camera that never moves; ten are few enough."""
        alike = np.tile(np.arange(768, dtype=np.uint8) // 4, (12, 1))
        assert not len(close_pictures(alike, alike, True)[0])
        assert len(close_pictures(alike[:11], alike[:11], True)[0]) == 55

    def test_a_small_thing_that_is_not_in_both_shows_in_its_tile(self) -> None:
        image = _photo(3)
        other = image.copy()
        ImageDraw.Draw(other).rectangle((20, 20, 40, 40), fill="black")
        assert tile_difference(image, image) == 0 and tile_difference(image, other) > 12

    def test_a_plain_picture_is_found_as_jpeg_and_smaller(self) -> None:
        image = Image.new("RGB", (120, 90), "white")
        ImageDraw.Draw(image).ellipse((20, 15, 80, 70), fill="navy")
        file = io.BytesIO()
        image.save(file, "JPEG", quality=50)
        copies = np.stack([shrink(Image.open(file)), shrink(image.resize((60, 45)))])
        assert close_pictures(shrink(image)[None], copies, False)[0].tolist() == [[0, 0], [0, 1]]
