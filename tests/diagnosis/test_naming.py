"""One cause, not ten symptoms: what is planted in photos is named first, and nothing is named in random tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from benchmarks.causes import PLANTS, Plant, first_images, first_named, plain_dataset, planted_tasks
from longshot.base import Floats
from longshot.data import Dataset, open_dataset
from longshot.diagnosis.alterations import ALTERED, FORM_ATTRIBUTES, FORMS, Signatures, alter
from longshot.diagnosis.attribute_gaps import AttributeColumn
from longshot.diagnosis.attribute_table import Pixels, measure_images, measured_pixels, pixel_gaps
from longshot.diagnosis.descriptors import NUMBERS, TURNS
from longshot.diagnosis.findings import _project, _say, findings
from longshot.tasks import Testbed, sample

PLANTED, TASKS = 10, 12
SURE = {"blur", "resolution", "noise", "brightness", "contrast", "saturation", "tint"}
World = tuple[Dataset, NDArray[np.uint8], Pixels, Testbed]


@pytest.fixture(scope="module")
def groceries(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Ten classes of 26 photos, and tasks whose supports are among the first ten of each."""
    images = first_images(open_dataset(shared / "data" / "grocery128.zip"), 10, 26)
    dataset = plain_dataset(images, tmp_path_factory.mktemp("groceries"))
    return dataset, images, measured_pixels(dataset), planted_tasks(dataset, PLANTED, TASKS)


@pytest.mark.parametrize(("title", "kind", "plant"), PLANTS, ids=[title for title, _, _ in PLANTS])
def test_the_planted_cause_is_named_first(groceries: World, title: str, kind: str, plant: Plant) -> None:
    dataset, images, pixels, tasks = groceries
    check(first_named(dataset, images, pixels, tasks, PLANTED, plant), kind)


def check(named: list[str], kind: str) -> None:
    """The goals: mirroring cannot be told reliably from photos of groceries, and then nothing is to be told."""
    right = named.count(kind) + (named.count("nothing") if kind == "mirroring" else 0)
    assert right >= (0.9 if kind in SURE else 0.8) * len(named), named


@pytest.mark.long
@pytest.mark.parametrize(("title", "kind", "plant"), PLANTS, ids=[title for title, _, _ in PLANTS])
def test_the_planted_cause_is_named_first_in_sixty_tasks(
    many_groceries: World, title: str, kind: str, plant: Plant
) -> None:
    dataset, images, pixels, tasks = many_groceries
    check(first_named(dataset, images, pixels, tasks, 15, plant), kind)


@pytest.fixture(scope="module")
def many_groceries(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    images = first_images(open_dataset(shared / "data" / "grocery128.zip"), 25, 40)
    dataset = plain_dataset(images, tmp_path_factory.mktemp("many"))
    return dataset, images, measured_pixels(dataset), planted_tasks(dataset, 15, 60)


def test_random_tasks_have_nothing_to_tell(groceries: World) -> None:
    dataset, _, pixels, _ = groceries
    bed = sample(dataset, tasks=100, way=5, shot=5, query=8, seed=1)
    gaps = pixel_gaps(pixels, bed.bind(dataset.name, dataset.keys, dataset.fingerprint), dataset.labels)
    assert sum(bool(findings(gaps, task, bed[task].classes)) for task in range(100)) <= 5


def test_symptoms_stand_under_their_cause(groceries: World) -> None:
    dataset, images, pixels, tasks = groceries
    rows = np.flatnonzero(np.arange(len(dataset)) % images.shape[1] < PLANTED)
    numbers = pixels.numbers.copy()
    rng = np.random.default_rng(0)
    numbers[rows] = measure_images([alter(dataset.image(int(row)), "blurred", 0.03, rng) for row in rows])
    bound = tasks.bind(dataset.name, dataset.keys, dataset.fingerprint)
    gaps = pixel_gaps(Pixels(numbers, pixels.sampled, pixels.altered), bound, dataset.labels)
    for task in range(TASKS):
        cause = findings(gaps, task, tasks[task].classes)[0]
        assert cause.attribute == "blurred" and "support is blurrier than the queries" in cause.sentence
        symptoms = {each.attribute for each in cause.symptoms}
        assert {"sharpness", "resolution"} <= symptoms and not symptoms & set(ALTERED)


def test_a_cause_of_the_queries_is_said_of_the_queries() -> None:
    column = AttributeColumn("noisy", None, np.zeros(1))
    assert _say([column], 0, [(0.0, 1.0)], -1.5) == "queries are noisier than the support by 1.5 σ"
    assert _say([column], 0, [(1.0, 0.0)], 1.5) == "support is noisier than the queries by 1.5 σ"


@pytest.mark.parametrize("turn", TURNS)
def test_turning_reorders_descriptors(groceries: World, turn: str) -> None:
    dataset = groceries[0]
    pictures = [dataset.image(row) for row in range(0, 60, 10)]
    rng = np.random.default_rng(0)
    before = measure_images(pictures)[:, len(NUMBERS) :]
    after = measure_images([alter(picture, turn, 1, rng) for picture in pictures])[:, len(NUMBERS) :]
    layout = slice(46, None)  # what comes before samples pixels
    np.testing.assert_allclose(after[:, layout], before[:, TURNS[turn]][:, layout], atol=1e-4)


def test_every_alteration_changes_a_picture_and_keeps_its_size() -> None:
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (40, 60, 3), np.uint8)).resize((90, 60))
    for name, strength in FORMS:
        changed = alter(picture, name, strength, np.random.default_rng(1))
        assert changed.size == picture.size and changed.mode == "RGB"
        assert np.abs(np.asarray(changed, float) - np.asarray(picture)).mean() > 0.5, name


def orthogonal(length: Floats) -> Signatures:
    size = len(FORMS)
    return Signatures(np.eye(size), np.eye(size), length, {}, np.eye(size), 0.0)


def test_projection_is_the_nearest_point_of_a_path() -> None:
    """With orthogonal forms of length 2 the way from 0 to form i explains 2 t q − t² · 4, t within its bounds."""
    length = np.full(len(FORMS), 2.0)
    shift = np.zeros(len(FORMS))
    first = FORM_ATTRIBUTES.index("noisy")
    shift[first] = 1.0  # half of what the weak form does
    projection = _project(orthogonal(length), shift)
    assert projection.position[first] == pytest.approx(0.5)
    assert projection.explained[first] == pytest.approx(1.0)
    shift[first], shift[first + 1] = 1.0, 1.0  # halfway between the weak and the strong form
    projection = _project(orthogonal(length), shift)
    assert projection.position[first + 1] == pytest.approx(0.5)
    assert projection.explained[first + 1] == pytest.approx(2.0)  # the point is the shift itself
    form, mixture = projection.nearest(first + 1)
    assert form in (first, first + 1) and mixture.sum() == pytest.approx(1)
