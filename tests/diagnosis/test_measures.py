"""Each measure answers to the change it is named after, on real pictures, and is cached with the dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from longshot.data import Dataset, open_dataset
from longshot.diagnosis import attribute_table as attribute_table
from longshot.diagnosis.attribute_gaps import comparable
from longshot.diagnosis.attribute_table import image_attributes, measure_images, measured_pixels
from longshot.diagnosis.descriptors import NUMBERS, SIDE, hue_names, measure


@pytest.fixture(scope="module")
def pictures(toys: Dataset) -> NDArray[np.uint8]:
    images = [toys.image(row).resize((SIDE, SIDE)) for row in range(0, len(toys), 60)]
    return np.stack([np.asarray(image) for image in images])


def column(pixels: NDArray[np.uint8], name: str) -> NDArray[np.float32]:
    return measure(pixels)[:, NUMBERS.index(name)]


def blurred(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.stack([np.asarray(Image.fromarray(p).filter(ImageFilter.GaussianBlur(2))) for p in pixels])


def noisy(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    noise = np.random.default_rng(0).normal(0, 12, pixels.shape)
    return np.clip(pixels + noise, 0, 255).astype(np.uint8)


def grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.repeat(pixels.mean(3, keepdims=True), 3, 3).astype(np.uint8)


def dark(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return (pixels * 0.5).astype(np.uint8)


def flat(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return (128 + (pixels.astype(np.float64) - 128) * 0.3).astype(np.uint8)


@pytest.mark.parametrize(
    ("change", "name", "rises"),
    [
        (dark, "brightness", False),
        (flat, "contrast", False),
        (grey, "saturation", False),
        (blurred, "sharpness", False),
        (blurred, "edges", False),
        (noisy, "noise", True),
        (noisy, "background", True),
    ],
)
def test_a_measure_follows_its_change(
    pictures: NDArray[np.uint8],
    change: object,
    name: str,
    rises: bool,
) -> None:
    before, after = column(pictures, name), column(change(pictures), name)  # type: ignore[operator]
    moved = after > before if rises else after <= before
    assert moved.mean() > 0.95
    assert not np.allclose(before, after)


def test_values_of_known_pictures() -> None:
    half = np.zeros((1, SIDE, SIDE, 3), np.uint8)
    half[:, :, SIDE // 2 :] = 255  # left black, right white
    measures = dict(zip(NUMBERS, measure(half)[0], strict=True))
    assert measures["brightness"] == pytest.approx(0.5)
    assert measures["contrast"] == pytest.approx(0.5)
    assert measures["saturation"] == 0
    assert measures["edges"] == pytest.approx(2 / (SIDE - 2))  # two columns see the step
    assert np.isnan(measures["hue_degrees"])


def test_the_object_is_what_differs_from_the_frame() -> None:
    image = np.full((1, SIDE, SIDE, 3), 90, np.uint8)
    image[:, 16:48, 16:48] = (200, 40, 40)
    assert column(image, "object_scale")[0] == pytest.approx((32 / SIDE) ** 2)
    assert column(image, "background")[0] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(
    ("colour", "name"),
    [
        *(((255, 0, 0), "red"), ((255, 255, 0), "yellow"), ((0, 255, 0), "green")),
        *(((0, 255, 255), "cyan"), ((0, 0, 255), "blue"), ((255, 0, 255), "magenta")),
        ((80, 80, 80), "grey"),
    ],
)
def test_hues_have_their_names(colour: tuple[int, int, int], name: str) -> None:
    image = np.full((1, SIDE, SIDE, 3), colour, np.uint8)
    assert hue_names(column(image, "hue_degrees")) == [name]


def test_toybox_faults_are_seen_in_the_pixels(toys: Dataset) -> None:
    measured, annotated = measured_pixels(toys, altered=False).table, toys.attributes
    assert annotated is not None
    for fault, name, lower in (("blur", "sharpness", True), ("under_exposed", "brightness", True)):
        has = np.asarray(annotated.column(fault).to_pylist(), bool)
        values = measured.column(name).to_numpy()
        assert (values[has].mean() < values[~has].mean()) == lower


@pytest.mark.parametrize("colour", ["black", "grey", "white"])
@pytest.mark.parametrize("size", [(60, 40), (1, 1), (3, 900)])
def test_a_picture_of_one_colour_has_finite_numbers(colour: str, size: tuple[int, int]) -> None:
    """One infinite number would spoil the signatures of all pictures; only the hue has no value."""
    with np.errstate(all="raise"):
        numbers = measure_images([Image.new("RGB", size, colour)])[0]
    assert np.flatnonzero(~np.isfinite(numbers)).tolist() == [NUMBERS.index("hue_degrees")]


def test_measured_once_and_gone_on_with(
    photos: Path, fresh_cache: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = open_dataset(photos)
    monkeypatch.setattr(attribute_table, "_SHARD", {"measures": 40, "signatures": 40})
    calls: list[int] = []
    real = attribute_table.measure

    def interrupted(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        calls.append(len(pixels))
        if sum(calls) > 60:
            raise KeyboardInterrupt
        return real(pixels)

    monkeypatch.setattr(attribute_table, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measured_pixels(dataset, altered=False)
    seen: list[int] = []
    monkeypatch.setattr(
        attribute_table, "measure", lambda pixels: (seen.append(len(pixels)), real(pixels))[1]
    )
    first = measured_pixels(dataset, altered=False).table
    assert sum(seen) == len(dataset) - 40  # the finished part was not measured again
    assert measured_pixels(dataset, altered=False).table.equals(first)
    assert sum(seen) == len(dataset) - 40


def test_own_columns_come_first(toys: Dataset, tmp_path: Path) -> None:
    keys = toys.keys.to_pylist()
    file = tmp_path / "more.csv"
    file.write_text(
        "path,brightness,place\n"
        + "".join(f"{key},7,{'in' if i % 2 else 'out'}\n" for i, key in enumerate(keys))
    )
    table = image_attributes(toys, attributes=file, pixels=measured_pixels(toys, altered=False))
    assert set(table.column("brightness").to_pylist()) == {7}
    assert table.column("place").to_pylist()[:2] == ["out", "in"]
    assert "viewpoint" in table.column_names and "sharpness" in table.column_names


def test_what_cannot_be_compared_is_told() -> None:
    table = pa.table(
        {
            "name": [f"n{i}" for i in range(30)],
            "same": [1] * 30,
            "nothing": pa.array([None] * 30, pa.float64()),
            "half": pa.array([1.0, None] * 15),
            "kind": ["a", "b", None] * 10,
        }
    )
    columns, notes = comparable(table)
    assert [column.name for column in columns] == ["kind = a", "kind = b"]
    assert columns[0].coverage == pytest.approx(2 / 3)
    together = " ".join(notes)
    assert "'name' has 30 different values" in together and "'same' is 1 for every image" in together
    assert "'nothing' is empty" in together and "'kind' is known for 20 of 30 images (67 %)" in together


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_attributes_carry_digests_and_refuse_other_images(photos: Path, tmp_path: Path, ending: str) -> None:
    import shutil

    import pyarrow.parquet as pq

    from longshot.base import UserError
    from longshot.data import open_dataset
    from longshot.diagnosis import measure_attributes
    from longshot.diagnosis.attribute_table import image_attributes

    folder = Path(shutil.copytree(photos, tmp_path / "birds"))
    out = tmp_path / f"attributes.{ending}"
    measure_attributes(folder, out=out)
    if ending == "parquet":
        assert b"content" in pq.read_schema(out).metadata[b"longshot"]
        return
    assert "digest" not in image_attributes(open_dataset(folder), attributes=out).column_names
    shutil.copyfile(folder / "round/crimson/000.jpg", folder / "square/navy/001.jpg")
    with pytest.raises(UserError, match=r"1 image of 'birds' changed since .* \('square/navy/001.jpg'\)"):
        image_attributes(open_dataset(folder), attributes=out)


def test_a_rule_over_measured_attributes_refuses_other_images(photos: Path, tmp_path: Path) -> None:
    import shutil

    import longshot

    folder = Path(shutil.copytree(photos, tmp_path / "birds"))
    longshot.measure_attributes(folder, out=folder / "attributes.csv")
    draw = {"query_where": "brightness < 0.9", "tasks": 2, "way": 2, "shot": 1, "query": 2}
    assert len(longshot.sample(folder, **draw)) == 2
    shutil.copyfile(folder / "round/crimson/000.jpg", folder / "square/navy/001.jpg")
    with pytest.raises(longshot.UserError, match="The attributes of 'birds' describe other images: 1 image"):
        longshot.sample(folder, **draw)
