"""Results from Python: held in memory or read from a folder, selected, shown, plotted; backbones as objects."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import longshot
from longshot.base import UserError
from longshot.evaluation import Results, run_stores
from longshot.evaluation.units import METRICS
from longshot.evaluation.views import summary_rows
from longshot.models import ProtoNet

METHODS = ["protonet", "protonet(distance='cosine')"]
COSINE = METHODS[1]


@pytest.fixture(scope="module")
def paths(beds: Path) -> list[Path]:
    return [beds / "fixed.parquet", beds / "any.parquet"]


@pytest.fixture(scope="module")
def memory(paths: list[Path], features: longshot.Features) -> Results:
    return longshot.evaluate(paths, backbones=features, methods=METHODS, device="cpu")


@pytest.fixture(scope="module")
def folder(
    paths: list[Path], features: longshot.Features, tmp_path_factory: pytest.TempPathFactory
) -> Results:
    out = tmp_path_factory.mktemp("results") / "run"
    return longshot.evaluate(paths, backbones=features, methods=METHODS, out=out, device="cpu")


class TestMemory:
    def test_rows_equal_those_of_a_folder(self, memory: Results, folder: Results) -> None:
        assert memory.table().drop_columns("seconds").equals(folder.table().drop_columns("seconds"))
        assert memory.table().schema.equals(folder.table().schema)
        assert memory.missing() == [] and min(memory.table()["seconds"].to_pylist()) > 0

    def test_nothing_is_written(
        self, beds: Path, features: longshot.Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for writer in ("write_run", "file_lock"):
            monkeypatch.setattr(run_stores, writer, None)  # a call would fail
        longshot.evaluate(beds / "fixed.parquet", backbones=features, methods="protonet")
        assert list(tmp_path.iterdir()) == []

    def test_scores_are_kept_on_request(self, beds: Path, features: longshot.Features) -> None:
        results = longshot.evaluate(
            beds / "any.parquet", backbones=features, methods="protonet", save_scores=True
        )
        row = results.table().to_pylist()[0]
        assert len(row["scores"]) == row["way"] * len(row["prediction"])

    def test_there_is_no_folder(self, memory: Results) -> None:
        with pytest.raises(UserError, match=r"held in memory and have no folder; evaluate with out=FOLDER\."):
            _ = memory.path

    def test_testbeds_are_at_hand(self, memory: Results, beds: Path) -> None:
        content_hash = longshot.Testbed.load(beds / "any.parquet").content_hash
        assert memory.testbed(content_hash).content_hash == content_hash
        with pytest.raises(UserError, match="results in memory have no testbed 000000000000…"):
            memory.testbed("0" * 64)

    def test_the_record_tells_the_same_story(self, memory: Results, folder: Results) -> None:
        for part in ("testbeds", "backbones", "methods", "cells"):
            assert memory.run[part] == folder.run[part]
        assert memory.run["sessions"][0]["finished"] is not None

    def test_a_report_and_a_comparison_take_them(
        self, memory: Results, folder: Results, tmp_path: Path
    ) -> None:
        page = longshot.report(memory, tmp_path / "report.html")
        assert "No pictures" not in page.read_text(encoding="utf-8")
        ours, theirs = longshot.compare(memory), longshot.compare(folder)
        assert [pair.result for pair in ours.pairs] == [pair.result for pair in theirs.pairs]
        assert longshot.compare(memory, folder).pairs[0].verdict == "tied"


class TestSelect:
    def test_each_way_of_choosing(self, memory: Results) -> None:
        chosen = memory.select(testbed="any", backbone="pixels", method=COSINE)
        assert [(row["testbed"], row["method"], row["tasks"]) for row in chosen.summary()] == [
            ("any", COSINE, 150)
        ]
        assert chosen.summary()[0] == memory.summary()[3]
        assert chosen.table().num_rows == 150

    def test_a_name_is_its_plain_call_where_there_is_one(self, memory: Results) -> None:
        assert list(memory.select(method="protonet").run["methods"]) == ["protonet"]
        assert (
            list(memory.select(method=["protonet", 'protonet(distance="cosine")']).run["methods"]) == METHODS
        )

    def test_by_the_start_of_a_hash(self, memory: Results) -> None:
        content_hash = memory.run["cells"][0]["testbed"]
        assert memory.select(testbed=content_hash[:10]).table()["testbed"].unique().to_pylist() == [
            content_hash
        ]

    def test_nothing_given_is_everything(self, memory: Results) -> None:
        assert memory.select().table().equals(memory.table())

    def test_a_view_leaves_the_results_as_they_are(self, memory: Results) -> None:
        memory.select(testbed="any")
        assert memory.table().num_rows == 700

    def test_a_view_is_reported_and_compared(self, memory: Results) -> None:
        (pair,) = longshot.compare(memory.select(testbed="fixed")).pairs
        assert (pair.testbed, pair.result.n) == ("fixed", 200)

    @pytest.mark.parametrize(
        ("choice", "sentence"),
        [
            ({"testbed": "none"}, "results in memory has no testbed 'none'; its testbeds are fixed, any."),
            ({"backbone": "clip"}, "results in memory has no backbone 'clip'; its backbones are pixels."),
            (
                {"method": "tim"},
                f"results in memory has no method 'tim'; its methods are protonet, {COSINE}.",
            ),
        ],
    )
    def test_what_is_not_there_is_told(self, memory: Results, choice: dict[str, str], sentence: str) -> None:
        with pytest.raises(UserError) as error:
            memory.select(**choice)  # type: ignore[arg-type]
        assert str(error.value) == sentence


class TestShown:
    def test_repr_has_at_most_five_lines(self, memory: Results, folder: Results) -> None:
        means = [
            f"{100 * record['accuracy']:.2f} ± {100 * record['ci95']:.2f} % ({record['tasks']} tasks)"
            for record in memory.summary()
        ]
        assert repr(memory).splitlines() == [
            "<Results results in memory: 4 cells>",
            f"fixed: protonet on pixels: {means[0]}",
            f"fixed: {COSINE} on pixels: {means[1]}",
            f"any: protonet on pixels: {means[2]}",
            "… and 1 more; see summary()",
        ]
        assert repr(folder).splitlines()[0] == f"<Results {folder.path}: 4 cells>"
        assert len(repr(memory.select(testbed="any")).splitlines()) == 3

    def test_one_task_has_no_interval_to_show(self, memory: Results, monkeypatch: pytest.MonkeyPatch) -> None:
        record = {**memory.summary()[0], "tasks": 1, "accuracy": 0.5, "accuracy_ci95": None}
        monkeypatch.setattr(Results, "summary", lambda self: [record])
        assert repr(memory).splitlines()[1] == "fixed: protonet on pixels: 50.00 % (1 task)"

    def test_html_holds_the_summary(self, memory: Results) -> None:
        html = memory._repr_html_()
        rows = summary_rows(memory)
        assert html.count("<tr>") == 1 + len(rows)
        assert all(f'<td dir="auto">{row["accuracy %"]}</td>' in html for row in rows)
        assert "<caption>results in memory: means over tasks ± half of their 95 % interval</caption>" in html
        assert all(" ± " in row[name] for row in rows for name in ("accuracy %", "balanced %"))
        assert (
            '<th dir="auto">accuracy %</th>' in html
            and '<td dir="auto">protonet(distance=&#x27;cosine&#x27;)</td>' in html
        )

    def test_summary_rows_have_half_widths(self, memory: Results) -> None:
        for record, row in zip(memory.summary(), summary_rows(memory), strict=True):
            for name, title in (("balanced_accuracy", "balanced %"), ("normalized_accuracy", "normalized %")):
                low, high = record[f"{name}_ci95"]
                assert row[title] == f"{100 * record[name]:.2f} ± {50 * (high - low):.2f}"

    def test_the_interval_over_classes_is_there_where_it_differs(self, memory: Results) -> None:
        records = memory.summary()
        differing = [abs(r["ci95_over_classes"] - r["ci95"]) > 0.2 * r["ci95"] for r in records]
        assert any(differing)  # seven classes of photos: some are much easier than others
        for record, row, differs in zip(records, summary_rows(memory), differing, strict=True):
            wider = f" (± {100 * record['ci95_over_classes']:.2f})" if differs else ""
            assert row["accuracy %"] == f"{100 * record['accuracy']:.2f} ± {100 * record['ci95']:.2f}{wider}"

    def test_a_data_frame(self, memory: Results) -> None:
        frame = memory.to_pandas()
        assert list(frame.columns) == memory.table().column_names and len(frame) == 700
        means = frame.groupby(["testbed_name", "method"], sort=False)["accuracy"].mean().tolist()
        assert means == pytest.approx([record["accuracy"] for record in memory.summary()], abs=1e-12)

    def test_without_pandas(self, memory: Results, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(UserError, match=r"needs pandas, which is not installed; pip install pandas\."):
            memory.to_pandas()


class Means(nn.Module):
    """Mean colours of four quarters: [B, 3, H, W] → [B, 12]."""

    preprocessing = "decode|resize(16,16)|value_range(0,1)"

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


class Pair(Means):
    """A module that returns two things."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images), images  # type: ignore[return-value]


class TestBackboneObjects:
    def test_an_array_gives_what_its_features_give(
        self, beds: Path, features: longshot.Features, dataset: longshot.Dataset
    ) -> None:
        array = np.asarray(features.array)
        results = longshot.evaluate(beds / "fixed.parquet", backbones=array, methods="protonet")
        from_features = longshot.evaluate(beds / "fixed.parquet", backbones=features, methods="protonet")
        assert results.run["cells"][0]["backbone"].startswith("array-")
        # The cache keeps half precision: a query between two classes may go to the other one.
        expected = from_features.summary()[0]["accuracy"]
        assert results.summary()[0]["accuracy"] == pytest.approx(expected, abs=0.01)

    def test_a_tensor_is_its_array(self, beds: Path, features: longshot.Features) -> None:
        array = np.asarray(features.array)
        results = longshot.evaluate(
            beds / "fixed.parquet", backbones=[array, torch.from_numpy(array)], methods="protonet"
        )
        assert len(results.run["cells"]) == 1

    def test_a_module(self, beds: Path, dataset: longshot.Dataset) -> None:
        results = longshot.evaluate(
            beds / "fixed.parquet", backbones=[Means(), "pixels"], methods="protonet", device="cpu"
        )
        first, second = (record["backbone"] for record in results.summary())
        assert first.startswith("Means-") and second == "pixels"
        embedded = longshot.embed(dataset, Means(), device="cpu")
        again = longshot.evaluate(beds / "fixed.parquet", backbones=embedded, methods="protonet")
        assert again.summary()[0]["accuracy"] == results.summary()[0]["accuracy"]

    def test_rows_that_do_not_fit(
        self, beds: Path, features: longshot.Features, dataset: longshot.Dataset
    ) -> None:
        with pytest.raises(UserError) as error:
            longshot.evaluate(
                beds / "fixed.parquet", backbones=np.asarray(features.array)[:10], methods="protonet"
            )
        assert "given as backbones has 10 rows" in str(error.value) and "240 images" in str(error.value)

    def test_a_module_that_returns_a_tuple(self, beds: Path, dataset: longshot.Dataset) -> None:
        with pytest.raises(UserError, match="tuple"):
            longshot.evaluate(beds / "fixed.parquet", backbones=Pair(), methods="protonet", device="cpu")

    def test_an_array_has_no_network_to_adapt(self, beds: Path, features: longshot.Features) -> None:
        with pytest.raises(UserError, match="gives features only"):
            longshot.evaluate(
                beds / "fixed.parquet",
                backbones=np.asarray(features.array),
                methods="finetune-all(lr=0.001, steps=1)",
            )


class TestWrongTypes:
    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"backbones": 3}, "backbones is 3 (int), but it must be the name of a backbone"),
            ({"backbones": ["pixels", None]}, "backbones is None (NoneType), but it must be"),
            (
                {"methods": 3},
                "3 (int) is no method; give a name of longshot.list_methods(), a function of",
            ),
            ({"testbeds": 3}, "testbeds is or holds 3 (int), but it must be a Testbed"),
            ({"testbeds": [None]}, "testbeds is or holds None (NoneType)"),
        ],
    )
    def test_parameter_and_what_is_possible(
        self, beds: Path, features: longshot.Features, change: dict[str, object], sentence: str
    ) -> None:
        options = {"testbeds": beds / "any.parquet", "backbones": features, "methods": "protonet", **change}
        with pytest.raises(UserError) as error:
            longshot.evaluate(options.pop("testbeds"), **options)  # type: ignore[arg-type]
        assert sentence in str(error.value)

    @pytest.mark.parametrize("shape", [lambda x: x, lambda x: [x], lambda x: (x,), lambda x: iter([x])])
    def test_one_or_several(self, beds: Path, features: longshot.Features, shape: object) -> None:
        results = longshot.evaluate(
            shape(beds / "fixed.parquet"),  # type: ignore[operator]
            backbones=shape(features),  # type: ignore[operator]
            methods=shape(ProtoNet()),  # type: ignore[operator]
        )
        assert [record["tasks"] for record in results.summary()] == [200]


def test_metrics_of_results_are_columns(memory: Results) -> None:
    assert set(METRICS) <= set(memory.table().column_names)
    json.dumps(memory.summary())  # plain values
