"""Methods and backbones handed to ``evaluate`` as objects, with labels, up to the tables that show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import longshot
from longshot.base import UserError

CELL = """
import longshot, torch

def laplace_lda(support, label, query, way):
    means = torch.stack([support[label == w].mean(0) for w in range(way)])
    return -torch.cdist(query, means, p=1)

hard = longshot.sample(PHOTOS, way=3, shot=2, query=3, tasks=8)
results = longshot.evaluate(hard, backbones="pixels", methods={"Laplace-LDA": laplace_lda, "ours": "protonet"})
print(results)
"""


def mean_colour(pictures: list[Any]) -> Any:
    """Vectors [n, 3] of pictures."""
    return np.stack([np.asarray(picture, np.float32).mean((0, 1)) for picture in pictures])


def median(support: Any, label: Any, query: Any, way: int) -> Any:
    return -torch.cdist(query, torch.stack([support[label == w].median(0).values for w in range(way)]))


def test_a_cell_of_ten_lines_evaluates_a_method_of_ones_own(photos: Path, fresh_cache: Path) -> None:
    from IPython.core.interactiveshell import InteractiveShell

    assert len([line for line in CELL.splitlines() if line]) <= 10
    shell = InteractiveShell()
    shell.user_ns["PHOTOS"] = photos
    result = shell.run_cell(CELL)
    result.raise_error()
    rows = shell.user_ns["results"].summary()
    assert [row["method"] for row in rows] == ["Laplace-LDA", "ours"]
    assert all(0 <= row["accuracy"] <= 1 for row in rows)


def test_labels_stand_in_the_run_and_in_latex(
    beds: Path, features: longshot.Features, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"backbones": {"pixels": features}, "out": tmp_path / "run"}
    longshot.evaluate(beds / "fixed.parquet", methods={"Median_LDA": median}, **options)
    again = longshot.evaluate(beds / "fixed.parquet", methods=["Ours=protonet", "ridge"], **options)
    assert [row["method"] for row in again.summary()] == ["Median_LDA", "Ours", "ridge"]
    table = longshot.report(tmp_path / "run", format="latex", out=tmp_path / "table.tex")
    text = (tmp_path / "table.tex").read_text()
    assert table is not None and r"Median\_LDA" in text and "Ours" in text and "protonet" not in text


def test_a_method_is_one_series_whatever_it_is_called(
    beds: Path, features: longshot.Features, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"backbones": {"pixels": features}, "out": tmp_path / "run"}
    longshot.evaluate(beds / "fixed.parquet", methods={"first": median}, **options)
    longshot.evaluate(beds / "fixed.parquet", methods={"second": median}, **options)
    assert "'second' is the method that this run calls 'first'" in capsys.readouterr().err
    assert [row["method"] for row in longshot.Results(tmp_path / "run").summary()] == ["first"]
    with pytest.raises(UserError, match="'a' and 'b' are one and the same method; give it once"):
        longshot.evaluate(beds / "fixed.parquet", methods={"a": median, "b": median}, **options)
    with pytest.raises(UserError, match=r"Two different methods are both called 'a'.*label"):
        longshot.evaluate(beds / "fixed.parquet", methods=["a=protonet", "a=ridge"], **options)
    with pytest.raises(UserError, match="results of the method first with another identity"):
        longshot.evaluate(beds / "fixed.parquet", methods={"first": "ridge"}, **options)


def test_a_function_of_pictures_is_a_backbone(photos: Path, fresh_cache: Path) -> None:
    features = longshot.embed(photos, mean_colour, dtype="float32")
    dataset = longshot.open_dataset(photos)
    expected = mean_colour([dataset.store.read(row) for row in range(len(dataset))])
    np.testing.assert_allclose(features.array, expected, rtol=1e-6)
    assert (features.dim, features.work.images) == (3, len(dataset))
    assert features.backbone.startswith("mean_colour-")
    assert longshot.embed(photos, mean_colour, dtype="float32").work.cached
    testbed = longshot.sample(photos, way=3, shot=2, query=3, tasks=8)
    results = longshot.evaluate(testbed, backbones={"colour": mean_colour}, methods="protonet")
    assert [row["backbone"] for row in results.summary()] == ["colour"]


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            lambda pictures: np.zeros(3),
            r"with ValueError: it returned \[3\]; let it return one vector per picture, \[",
        ),
        (
            lambda pictures: [picture.nothing for picture in pictures],
            "failed on .* with AttributeError: .*nothing",
        ),
    ],
)
def test_a_function_that_gives_no_vectors_is_told(
    photos: Path, fresh_cache: Path, function: Any, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        longshot.embed(photos, function)
    with pytest.raises(UserError, match="which prepares pictures itself; leave preprocessing out"):
        longshot.embed(photos, function, preprocessing="decode|resize(8,8)")
