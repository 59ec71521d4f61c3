"""Neighbours by cosine: exact against plain NumPy, the index against exact, descriptors and pixel comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from longshot.audit import alignment, candidates
from longshot.audit.alignment import (
    best_variants,
    cut,
    grey,
    in_place,
    inverse,
    low_frequencies,
    orient,
    symmetric,
    turn_of,
    whole_frequencies,
)
from longshot.audit.candidates import invariants, learn_metric, nearest
from longshot.audit.pairs import thumbnail
from longshot.base import UserError


def _vectors(rows: int, seed: int, dim: int = 30) -> NDArray[np.float32]:
    """Clustered vectors; the clusters are the same for every seed."""
    centres = np.random.default_rng(0).standard_normal((20, dim))
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(20, size=rows)] + 0.4 * rng.standard_normal((rows, dim))).astype(np.float32)


def _brute(queries: NDArray[Any], base: NDArray[Any]) -> NDArray[np.float64]:
    q, b = (x.astype(np.float64) for x in (queries, base))
    return (q / np.linalg.norm(q, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


def test_exact_search_is_that_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_QUERIES", 64)  # several blocks of both
    monkeypatch.setattr(candidates, "_BASE", 100)
    queries, base = _vectors(150, 1), _vectors(230, 2)
    neighbours = nearest(queries, base, 4, index="exact", device="cpu")
    cosine = _brute(queries, base)
    order = np.argsort(-cosine, axis=1)[:, :4]
    np.testing.assert_array_equal(neighbours.rows, order)
    np.testing.assert_allclose(neighbours.similarity, np.take_along_axis(cosine, order, 1), atol=1e-5)


def test_the_own_row_is_left_out_within_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_QUERIES", 32)
    monkeypatch.setattr(candidates, "_BASE", 50)
    base = _vectors(120, 3)
    neighbours = nearest(base, base, 3, index="exact", leave_self=True, device="cpu")
    cosine = _brute(base, base)
    np.fill_diagonal(cosine, -2)
    np.testing.assert_array_equal(neighbours.rows, np.argsort(-cosine, axis=1)[:, :3])


def test_fewer_rows_than_wanted() -> None:
    base = _vectors(3, 4)
    assert nearest(base, base, 10, leave_self=True, device="cpu").rows.shape == (3, 2)
    assert nearest(base[:1], base[:1], 10, leave_self=True, device="cpu").rows.shape == (1, 0)


@pytest.mark.parametrize("dim", [32, 30, 510])  # short, filled up to a multiple of four, long
def test_the_index_finds_planted_copies_in_exact_order(dim: int) -> None:
    pytest.importorskip("faiss", reason="needs the extra 'overlap'")
    base = _vectors(4000, 5, dim)
    queries = base[:500] + 0.02 * _vectors(500, 6, dim)
    neighbours = nearest(queries, base, 5, index="ivf", device="cpu")
    assert np.mean(neighbours.rows[:, 0] == np.arange(500)) > 0.99
    cosine = np.take_along_axis(_brute(queries, base), neighbours.rows, 1)
    np.testing.assert_allclose(neighbours.similarity, cosine, atol=1e-5)
    assert (np.diff(neighbours.similarity, axis=1) <= 0).all()


def test_the_index_leaves_out_the_own_row() -> None:
    pytest.importorskip("faiss", reason="needs the extra 'overlap'")
    base = _vectors(2000, 7)
    neighbours = nearest(base, base, 2, index="ivf", leave_self=True, device="cpu")
    assert not (neighbours.rows == np.arange(2000)[:, None]).any()


def test_auto_takes_the_index_for_large_sets_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="needs the extra 'overlap'")
    monkeypatch.setattr(candidates, "EXACT_ROWS", 1000)
    large, small = _vectors(1500, 8), _vectors(800, 9)
    assert nearest(large, large, 1, device="cpu").index.startswith("ivf(")
    assert nearest(large, small, 1, device="cpu").index == "exact"


def test_without_faiss_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"longshot\[overlap\]"):
        nearest(_vectors(10, 1), _vectors(10, 2), 1, index="ivf")


def test_vectors_of_two_widths_are_refused() -> None:
    with pytest.raises(UserError, match="same backbone"):
        nearest(_vectors(3, 1, 8), _vectors(3, 1, 9), 1)


def _photo(seed: int, side: int = 80) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((side, side), Image.Resampling.BICUBIC)


def _grey(image: Image.Image) -> torch.Tensor:
    return grey(thumbnail(image)[None])


def _turned(image: Image.Image, symmetry: int) -> Image.Image:
    """The same symmetry by the imaging library: transposed, then upside down, then mirrored."""
    steps = (Image.Transpose.TRANSPOSE, Image.Transpose.FLIP_TOP_BOTTOM, Image.Transpose.FLIP_LEFT_RIGHT)
    for bit, step in zip((4, 2, 1), steps, strict=True):
        image = image.transpose(step) if symmetry & bit else image
    return image


@pytest.mark.parametrize("symmetry", range(8))
def test_low_frequencies_and_pixels_turn_alike(symmetry: int) -> None:
    image, crop = _photo(1), torch.tensor([[1.0, 0.0, 0.0]])
    turned = _grey(_turned(image, symmetry))
    torch.testing.assert_close(orient(_grey(image), symmetry), turned, atol=1.0, rtol=0)  # bytes are rounded
    vectors = symmetric(low_frequencies(_grey(image), crop))[0, 0] @ low_frequencies(turned, crop)[0, 0]
    assert int(vectors.argmax()) == symmetry and float(vectors[symmetry]) > 0.999
    back = int(inverse(np.array([symmetry]))[0])
    assert torch.equal(orient(orient(_grey(image), symmetry), back), _grey(image))


@pytest.mark.parametrize("symmetry", range(8))
def test_a_symmetry_in_words_is_what_the_imaging_library_does(symmetry: int) -> None:
    image = _photo(2)
    mirrored, degrees = (values[0] for values in turn_of(np.array([symmetry])))
    in_words = (ImageOps.mirror(image) if mirrored else image).rotate(int(degrees))
    assert in_words.tobytes() == _turned(image, symmetry).tobytes()


def test_invariants_know_no_symmetry_brightness_or_contrast() -> None:
    picture = _grey(_photo(3))
    values = invariants(picture)
    assert (invariants(_grey(_photo(4))) - values).abs().max() > 0.1
    for symmetry in range(8):
        torch.testing.assert_close(invariants(0.7 * orient(picture, symmetry) + 9), values, atol=2e-3, rtol=0)


def test_the_learned_metric_keeps_crops_together() -> None:
    pictures = torch.cat([_grey(_photo(seed)) for seed in range(220)])
    metric = learn_metric(pictures[:160])
    crops = metric.embed(cut(pictures[160:], 0.85, 0.1, 0.02))
    nearest = np.argmax(crops @ metric.embed(pictures).T, axis=1)
    assert np.mean(nearest == np.arange(160, 220)) >= 0.8


def test_a_metric_of_few_pictures_has_no_direction_that_is_rounding_alone() -> None:
    metric = learn_metric(torch.cat([_grey(_photo(seed)) for seed in range(40)]))
    assert 0 < int((metric.map.abs().amax(0) > 0).sum()) <= 39


def _aligned(a: Image.Image, b: Image.Image) -> tuple[alignment.Alignment, alignment.Distances]:
    """How the best variant of ``a`` lies on ``b``, and the distances there."""
    thumbnails = [thumbnail(image)[None] for image in (a, b)]
    rows = np.zeros((1, 1), np.int64)
    start = in_place(best_variants(thumbnails[0], whole_frequencies(thumbnails[1]), rows, 1, "test"))
    if not len(start):
        pytest.fail("no variant came near")
    values = (start.symmetry, start.second, start.framed, start.rows, start.columns)
    how = alignment.Alignment(torch.ones(1), *(torch.from_numpy(np.array(value)) for value in values))
    how = alignment.align(grey(thumbnails[0]), grey(thumbnails[1]), how)
    large = [torch.from_numpy(thumbnail(image, alignment.DETAIL))[None] for image in (a, b)]
    return how, alignment.compare(*large, how)


@pytest.mark.parametrize("symmetry", range(8))
def test_alignment_finds_the_crop_of_a_turned_picture(symmetry: int) -> None:
    image = _photo(2, 200)
    cropped = image.crop((20, 8, 190, 178))  # 85 % of each side, from 10 % and 4 % on
    how, d = _aligned(image, _turned(cropped, symmetry))
    assert how.symmetry.tolist() == [symmetry]
    assert how.distance.item() < 0.02 and d.grey.item() < 0.02 and d.detail.item() < 0.15
    if symmetry == 0:
        assert how.columns[0].tolist() == pytest.approx([0.85, 0.1], abs=0.02)
        assert how.rows[0].tolist() == pytest.approx([0.85, 0.04], abs=0.02)


def test_a_painted_border_is_taken_off() -> None:
    image = _photo(5, 100)
    framed = Image.new("RGB", (100, 100), "black")
    framed.paste(image.crop((6, 6, 94, 94)), (6, 6))
    _, d = _aligned(framed, image)
    assert d.grey.item() < 0.05


def test_distance_is_zero_for_the_same_and_about_one_for_others() -> None:
    same, other = (grey(thumbnail(_photo(seed), alignment.DETAIL)[None]) for seed in (3, 4))
    assert alignment.difference(same, 0.7 * same + 20).item() == pytest.approx(0, abs=0.02)
    assert alignment.difference(same, other).item() > 0.5
    flat = torch.full_like(same, 90.0)
    assert alignment.difference(flat, flat).item() == pytest.approx(1)  # nothing to tell them by


def test_colour_tells_look_alikes_apart_and_grey_does_not_count() -> None:
    image = _photo(6)
    channels = image.split()
    other = Image.merge("RGB", (channels[2], channels[1], channels[0]))
    plain = image.convert("L").convert("RGB")
    how, _ = _aligned(image, image)
    large = [torch.from_numpy(thumbnail(x, alignment.DETAIL))[None] for x in (image, other, plain)]
    assert alignment.compare(large[0], large[1], how).colour.item() > 0.2
    assert alignment.compare(large[0], large[2], how).colour.item() == 0
    assert alignment.compare(large[0], large[2], how).grey.item() < 0.02
