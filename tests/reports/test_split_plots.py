"""Pictures of splits: the plane is scikit-learn's PCA, files are whole and the same each time."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.decomposition import PCA

from longshot.base import UserError
from longshot.reports import SETS, DivergenceSeries, SplitPanel, accuracy_by_divergence, class_map
from longshot.reports.testbed_plots import plane


def _panels(count: int) -> list[SplitPanel]:
    order = np.arange(20)
    sets = {"train": order[:12], "validation": order[12:16], "test": order[16:]}
    return [SplitPanel(f"R = {number}", sets) for number in range(count)]


EMBEDDINGS = np.random.default_rng(0).normal(size=(20, 7))
SERIES = DivergenceSeries(
    "maml",
    np.array([0.1, 0.5]),
    np.array([0.6, 0.5]),
    np.array([0.58, 0.47]),
    np.array([0.62, 0.53]),
    (0.625, -0.25),
)


def test_the_plane_is_that_of_scikit_learn() -> None:
    points, shares = plane(EMBEDDINGS)
    theirs = PCA(n_components=2).fit(EMBEDDINGS)
    np.testing.assert_allclose(shares, theirs.explained_variance_ratio_, rtol=1e-9)
    projected = theirs.transform(EMBEDDINGS)
    np.testing.assert_allclose(np.abs(points), np.abs(projected), rtol=1e-7, atol=1e-9)
    assert (points[np.abs(points).argmax(axis=0), [0, 1]] > 0).all()


def test_one_dimension_has_no_second_axis() -> None:
    points, shares = plane(np.array([[1.0], [2.0], [4.0]]))
    assert np.allclose(points[:, 1], 0)
    assert shares.tolist() == [1, 0]


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_a_map_per_split(tmp_path: Path, count: int) -> None:
    path = tmp_path / "map.svg"
    class_map(EMBEDDINGS, _panels(count), path, "twenty classes")
    text = path.read_text(encoding="utf-8")
    means = EMBEDDINGS[:12].mean(0), EMBEDDINGS[16:].mean(0)
    apart = np.linalg.norm(means[0] - means[1])
    assert text.count(f"means {apart:.2f} apart") == count
    assert all(name in text for name in SETS)
    assert all(f"R = {number}" in text for number in range(count))


def test_accuracy_with_its_slope(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.svg"
    accuracy_by_divergence([SERIES], path, title="5-way 5-shot", chance=0.4)
    text = path.read_text(encoding="utf-8")
    assert "maml (−25.00 per unit)" in text
    assert "chance" in text
    assert "5-way 5-shot" in text
    ticks = set(re.findall(r">(0\.\d)<", text))
    assert {"0.1", "0.5"} <= ticks


def test_a_chance_far_below_does_not_flatten_the_rest(tmp_path: Path) -> None:
    accuracy_by_divergence([SERIES], tmp_path / "a.svg", title="", chance=0.1)
    assert "chance" not in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_numbers_at_the_axis_do_not_touch(tmp_path: Path) -> None:
    crowded = DivergenceSeries("maml", np.array([0.04, 0.96, 16.0]), np.array([0.6, 0.5, 0.4]))
    accuracy_by_divergence([crowded], tmp_path / "a.svg", title="")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert ">0.04<" in text
    assert ">16<" in text
    assert ">0.96<" not in text


def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        class_map(EMBEDDINGS, _panels(2), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_png_is_large_enough_to_read(tmp_path: Path) -> None:
    accuracy_by_divergence([SERIES], tmp_path / "a.png", title="5-way 5-shot")
    assert Image.open(tmp_path / "a.png").size == (1050, 630)


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"ends in \.gif, but a picture is written as \.png or \.svg or \.pdf"
    ):
        class_map(EMBEDDINGS, _panels(1), tmp_path / "map.gif")
    assert not list(tmp_path.iterdir())
