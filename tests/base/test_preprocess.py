"""Preprocessing strings: grammar, numbers, messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from longshot.base import UserError, parse_preprocessing

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8))


def test_resize_and_crop_give_the_promised_size() -> None:
    assert parse_preprocessing("decode|resize(40)|central_crop(32)").size == (32, 32)
    assert parse_preprocessing("decode|resize(40)|central_crop(32)")(PICTURE).shape == (3, 32, 32)
    assert parse_preprocessing("decode|resize(20,30)")(PICTURE).shape == (3, 20, 30)


def test_resize_keeps_the_aspect_ratio() -> None:
    steps = parse_preprocessing("decode|resize(30)|central_crop(30,45)")
    expected = np.asarray(PICTURE.resize((45, 30), Image.Resampling.BILINEAR))
    assert np.array_equal(steps.pixels(PICTURE), expected)


def geometry(text: str, width: int, height: int) -> tuple[int, int]:
    """Width and height that a picture has after the first step of ``text``."""
    return parse_preprocessing(text).geometry[0](Image.new("RGB", (width, height))).size


def test_the_long_side_is_cut_off_not_rounded() -> None:
    """As torchvision and transformers: int(30 · 91 / 60) = 45, where 45.5 would be rounded to 46."""
    assert geometry("decode|resize(30)|central_crop(30)", 91, 60) == (45, 30)
    assert geometry("decode|resize(30)|central_crop(30)", 60, 91) == (30, 45)
    assert geometry("decode|resize(30,longest)|pad(30)|central_crop(30)", 91, 60) == (30, 20)


def test_an_odd_border_is_cut_or_rounded_to_even() -> None:
    columns = Image.fromarray(np.tile(np.arange(9, dtype=np.uint8)[None, :, None], (9, 1, 3)))
    cut, even = (
        parse_preprocessing("decode|central_crop(6)"),
        parse_preprocessing("decode|central_crop(6,even)"),
    )
    assert cut.pixels(columns)[0, 0, 0] == 1  # 3 / 2 cut off
    assert even.pixels(columns)[0, 0, 0] == 2  # 3 / 2 rounded to the even number
    assert even.text == "decode|central_crop(6,even)"


def test_pad_before_and_with_a_colour() -> None:
    white = Image.new("RGB", (2, 2), "white")
    after, before = (
        parse_preprocessing("decode|pad(5)|central_crop(5)"),
        parse_preprocessing("decode|pad(5,before)|central_crop(5)"),
    )
    assert after.pixels(white)[:, :, 0].argmax() == 5 * 1 + 1
    assert before.pixels(white)[:, :, 0].argmax() == 5 * 2 + 2
    filled = parse_preprocessing("decode|pad(4,before,fill,1,2,3)|central_crop(4)")
    assert filled.text == "decode|pad(4,before,fill,1,2,3)|central_crop(4)"
    assert filled.pixels(white)[0, 0].tolist() == [1, 2, 3]


def test_values_default_to_zero_to_one() -> None:
    white = Image.new("RGB", (4, 4), "white")
    assert np.allclose(parse_preprocessing("decode|resize(2,2)")(white), 1.0)


def test_value_range() -> None:
    black = Image.new("RGB", (4, 4), "black")
    assert np.allclose(parse_preprocessing("decode|resize(2,2)|value_range(-3,5)")(black), -3.0)


def test_normalize_imagenet_is_per_channel() -> None:
    made = parse_preprocessing("decode|resize(8,8)|normalize(imagenet)")(PICTURE)
    small = np.asarray(PICTURE.resize((8, 8), Image.Resampling.BILINEAR), np.float64).transpose(2, 0, 1) / 255
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    assert np.allclose(made, (small - mean[:, None, None]) / std[:, None, None], atol=1e-5)


def test_normalize_with_six_numbers_equals_the_name() -> None:
    named = parse_preprocessing("decode|resize(8,8)|normalize(imagenet)")
    spelt = parse_preprocessing("decode|resize(8,8)|normalize(0.485,0.456,0.406,0.229,0.224,0.225)")
    assert np.allclose(named(PICTURE), spelt(PICTURE))


def test_grayscale_makes_equal_channels() -> None:
    made = parse_preprocessing("decode|grayscale|resize(8,8)")(PICTURE)
    assert np.array_equal(made[0], made[1])


def test_pad_puts_the_image_in_the_middle() -> None:
    white = Image.new("RGB", (2, 2), "white")
    made = parse_preprocessing("decode|pad(6)|central_crop(6)")(white)
    assert made[0].sum() == 4
    assert made[0, 2:4, 2:4].all()


def test_crop_of_too_small_an_image_names_the_remedy() -> None:
    with pytest.raises(UserError, match=r"60 × 90 pixels; put resize\(s\) or pad\(s\)"):
        parse_preprocessing("decode|central_crop(64)")(PICTURE)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("resize(3,3)", "'resize\\(3,3\\)' is wrong: 'decode' stands first"),
        ("decode|rezise(3)", "'rezise\\(3\\)' is wrong: there is no such step. Steps are: decode"),
        ("decode|resize(3,3", "no such step"),
        ("decode|resize(0)", "whole numbers from 1"),
        ("decode|resize(2.5)", "whole numbers"),
        ("decode|resize(a)", "not all numbers"),
        ("decode|resize(1,2,3)", "has 3 arguments and needs 1 or 2"),
        ("decode|resize(8,8,longest)", "'longest' stands beside one side"),
        ("decode|pad(8,fill,1,2)|central_crop(8)", "has 2 arguments and needs 3"),
        ("decode|pad(8,fill,1,2,300)|central_crop(8)", "three whole numbers from 0 to 255"),
        ("decode|resize(32)|central_crop(64)", "more than the 32 pixels"),
        ("decode|resize(32)", "leaves images at sizes of their own"),
        ("decode|resize(8,8)|normalize(0.5)", "has 1 arguments and needs 2 or 6"),
        ("decode|resize(8,8)|normalize(0.5,0)", "standard deviation is 0"),
        ("decode|resize(8,8)|value_range(1,1)", "two ends are equal"),
        ("decode|normalize(0.5,0.5)|resize(8,8)", "go before value_range"),
        ("decode(3)|resize(8,8)", "takes no argument"),
        ("decode(reduced)|central_crop(8)", "is followed by resize"),
        ("", "there is no such step"),
    ],
)
def test_mistakes_name_the_step(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        parse_preprocessing(text)


number = st.floats(-10, 10, allow_nan=False).map(lambda x: round(x, 4))


@given(
    st.integers(1, 99),
    st.integers(1, 99),
    st.sampled_from(["", ",bicubic", ",nearest"]),
    number,
    st.floats(0.01, 9),
)
def test_canonical_form_reads_back(height: int, width: int, kind: str, mean: float, std: float) -> None:
    text = f" decode | resize( {height} , {width}{kind}) | normalize({mean},{std})"
    once = parse_preprocessing(text)
    assert parse_preprocessing(once.text).text == once.text
    assert parse_preprocessing(once.text).scale == once.scale
    assert parse_preprocessing(once.text).shift == once.shift


def test_a_reduced_image_is_resized_to_what_its_full_size_asks_for() -> None:
    """500 × 333 → 219 × 146, for which 438 × 292 is enough; half of it, 250 × 167, would become 218 × 146."""
    transform = parse_preprocessing("decode(reduced)|resize(146)|central_crop(128,130)")
    assert (transform.text, transform.reduced) == ("decode(reduced)|resize(146)|central_crop(128,130)", True)
    assert transform.enough(500, 333) == (438, 292)
    half = Image.linear_gradient("L").resize((250, 167)).convert("RGB")
    expected = half.resize((219, 146), Image.Resampling.BILINEAR).crop((44, 9, 174, 137))
    np.testing.assert_array_equal(transform.pixels(half, (500, 333)), np.asarray(expected))
