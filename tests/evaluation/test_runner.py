"""Evaluate as a library: rows, resume, extension, independence of workers and batches."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import duckdb
import numpy as np
import pytest
from torch import Tensor

import longshot
from longshot.base import TaskBatch, UserError
from longshot.evaluation import Results, units
from longshot.models import ProtoNet

METHODS = ["protonet", "protonet(distance='cosine')"]


def files(folder: Path, pattern: str = "part-*.parquet") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob(pattern))}


@pytest.fixture(scope="module")
def run(beds: Path, features: longshot.Features, tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("runs") / "run"
    paths = [beds / "fixed.parquet", beds / "any.parquet"]
    return longshot.evaluate(paths, backbones=features, methods=METHODS, out=folder, device="cpu")


def test_one_row_per_task_method_and_testbed(run: Results) -> None:
    table = run.table()
    assert table.num_rows == 2 * (200 + 150)
    keys = list(zip(*(table[c].to_pylist() for c in ("testbed_name", "method", "task")), strict=True))
    assert len(set(keys)) == len(keys)


def test_accuracy_is_that_of_nearest_class_means(
    run: Results, beds: Path, features: longshot.Features
) -> None:
    """Recomputed in NumPy from keys alone, for every task of the mixed testbed."""
    testbed = longshot.Testbed.load(beds / "any.parquet")
    rows = {key: number for number, key in enumerate(features.keys.to_pylist())}
    table = run.table().to_pylist()
    by_task = {
        row["task"]: row for row in table if row["testbed_name"] == "any" and row["method"] == "protonet"
    }
    for task in testbed:
        support = features.array[[rows[key] for key in task.support]].astype(np.float64)
        query = features.array[[rows[key] for key in task.query]].astype(np.float64)
        means = np.stack([support[task.support_label == label].mean(0) for label in range(task.way)])
        nearest = ((query[:, None] - means[None]) ** 2).sum(2).argmin(1)
        row = by_task[task.index]
        assert row["prediction"] == nearest.tolist()
        assert row["accuracy"] == pytest.approx((nearest == task.query_label).mean())
        assert (row["way"], row["mean_shot"]) == (task.way, pytest.approx(len(task.support) / task.way))


def test_summary_has_means_and_intervals(run: Results) -> None:
    summary = run.summary()
    assert [(s["testbed"], s["method"], s["tasks"]) for s in summary] == [
        ("fixed", METHODS[0], 200),
        ("fixed", METHODS[1], 200),
        ("any", METHODS[0], 150),
        ("any", METHODS[1], 150),
    ]
    first = summary[0]
    accuracy = np.array(run.table()["accuracy"])[:200]
    assert first["accuracy"] == pytest.approx(accuracy.mean())
    low, high = first["accuracy_ci95"]
    assert low < first["accuracy"] < high
    assert first["ci95"] == pytest.approx(1.96 * accuracy.std(ddof=1) / 200**0.5, rel=0.01)


def test_duckdb_reads_the_folder(run: Results) -> None:
    query = (
        f"select method, avg(accuracy) from '{run.path}/*.parquet' where testbed_name = 'any' group by method"
    )
    means = dict(duckdb.sql(query).fetchall())
    assert means == {
        s["method"]: pytest.approx(s["accuracy"]) for s in run.summary() if s["testbed"] == "any"
    }


def test_timings_lie_beside_the_results_and_join_in(run: Results) -> None:
    assert run.table()["seconds"].null_count == 0
    parts, timings = f"'{run.path}/*.parquet'", f"'{run.path}/seconds/*.parquet'"
    joined = f"{parts} join {timings} using (testbed, task, backbone, method, seed)"
    [(count, least)] = duckdb.sql(f"select count(*), min(seconds) from {joined}").fetchall()
    assert count == 700
    assert least > 0


def test_run_json_tells_the_whole_story(
    run: Results, features: longshot.Features, dataset: longshot.Dataset
) -> None:
    story = run.run["backbones"]["pixels"][dataset.fingerprint]
    assert story["hash"] == features.view == features.hash[:32]
    assert story["networks"][0]["weights_hash"] == features.weights_hash
    assert story["networks"][0]["preprocessing"] == features.preprocessing
    assert {bed["name"] for bed in run.run["testbeds"].values()} == {"fixed", "any"}
    assert all(
        list(bed["datasets"].values()) == [dataset.fingerprint] for bed in run.run["testbeds"].values()
    )
    assert run.run["methods"]["protonet"]["settings"] == {
        "distance": "euclidean",
        "scale": None,
        "squared": True,
    }
    session = run.run["sessions"][0]
    assert session["started"] <= session["finished"]
    assert {"torch", "numpy", "longshot"} <= set(session["packages"])
    assert {"machine", "revision", "seed", "workers"} <= set(session)


def test_the_folder_keeps_its_testbeds(run: Results, beds: Path) -> None:
    original = longshot.Testbed.load(beds / "any.parquet")
    copy = run.testbed(original.content_hash)
    assert copy.content_hash == original.content_hash
    with pytest.raises(UserError, match="copy of its testbed is missing"):
        run.testbed("0" * 64)


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_do_not_change_a_byte(
    run: Results, beds: Path, features: longshot.Features, tmp_path: Path, workers: int
) -> None:
    paths = [beds / "fixed.parquet", beds / "any.parquet"]
    longshot.evaluate(
        paths, backbones=features, methods=METHODS, out=tmp_path / "run", workers=workers, device="cpu"
    )
    assert files(tmp_path / "run") == files(run.path)


def test_batch_size_does_not_change_predictions(
    run: Results, beds: Path, features: longshot.Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProtoNet, "batch_bytes", 1)  # one task per batch
    alone = longshot.evaluate(
        beds / "any.parquet", backbones=features, methods=METHODS, out=tmp_path / "run", device="cpu"
    )
    together = [row for row in run.table().to_pylist() if row["testbed_name"] == "any"]
    for single, batched in zip(alone.table().to_pylist(), together, strict=True):
        assert single["prediction"] == batched["prediction"]
        assert single["loss"] == pytest.approx(batched["loss"], rel=1e-4, abs=1e-5)


class Counting(ProtoNet):
    """ProtoNet that counts the tasks it is scored for."""

    scored = 0

    def scores(self, batch: TaskBatch) -> Tensor:
        type(self).scored += len(batch)
        return super().scores(batch)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    monkeypatch.setattr(Counting, "scored", 0)
    return Counting


def test_a_second_call_computes_nothing(
    beds: Path, features: longshot.Features, tmp_path: Path, counting: type[Counting]
) -> None:
    for expected in (200, 200):
        longshot.evaluate(
            beds / "fixed.parquet", backbones=features, methods=counting(), out=tmp_path / "run", workers=1
        )
        assert counting.scored == expected


@pytest.mark.parametrize("harm", ["remove", "truncate", "flip"])
def test_only_the_missing_or_damaged_part_is_computed_anew(
    beds: Path,
    features: longshot.Features,
    tmp_path: Path,
    counting: type[Counting],
    harm: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "run"
    results = longshot.evaluate(
        beds / "fixed.parquet", backbones=features, methods=counting(), out=folder, workers=1
    )
    before = files(folder)
    path = units.part_path(folder, results.run["cells"][0]["units"][1])  # tasks 128 … 199
    data = bytearray(path.read_bytes())
    if harm == "remove":
        path.unlink()
    elif harm == "truncate":
        path.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 4] ^= 0xFF
        path.write_bytes(data)
    counting.scored = 0
    longshot.evaluate(beds / "fixed.parquet", backbones=features, methods=counting(), out=folder, workers=1)
    assert counting.scored == 72
    assert files(folder) == before
    assert ("1 damaged" in capsys.readouterr().err) == (harm != "remove")


def test_a_damaged_part_is_named_when_read(
    run: Results, beds: Path, features: longshot.Features, tmp_path: Path
) -> None:
    results = longshot.evaluate(
        beds / "fixed.parquet", backbones=features, methods="protonet", out=tmp_path / "run"
    )
    path = next((tmp_path / "run").glob("part-*.parquet"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=r"truncated or damaged.*again"):
        results.table()


def test_another_method_extends_the_run(beds: Path, features: longshot.Features, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    longshot.evaluate(beds / "fixed.parquet", backbones=features, methods=METHODS[0], out=folder)
    before = files(folder)
    results = longshot.evaluate(beds / "fixed.parquet", backbones=features, methods=METHODS[1], out=folder)
    assert [s["method"] for s in results.summary()] == METHODS
    assert before.items() <= files(folder).items()
    assert len(results.run["sessions"]) == 2


def test_the_same_images_under_another_name_extend_the_run(
    beds: Path, features: longshot.Features, tmp_path: Path
) -> None:
    for dataset, method in (("photos", "protonet"), ("pictures", "protonet(distance='cosine')")):
        renamed = dataclasses.replace(features, dataset=dataset)
        run = longshot.evaluate(
            beds / "fixed.parquet", backbones=renamed, methods=method, out=tmp_path / "run"
        )
    assert {row["method"] for row in run.summary()} == {"protonet", "protonet(distance='cosine')"}


def test_scores_are_kept_on_request_and_added_to_a_run_without(
    beds: Path, features: longshot.Features, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    longshot.evaluate(beds / "any.parquet", backbones=features, methods="protonet", out=folder)
    results = longshot.evaluate(
        beds / "any.parquet", backbones=features, methods="protonet", out=folder, save_scores=True
    )
    for row in results.table().to_pylist():
        scores = np.array(row["scores"]).reshape(-1, row["way"])
        assert scores.argmax(1).tolist() == row["prediction"]


def test_two_backbones_side_by_side(beds: Path, dataset: longshot.Dataset, tmp_path: Path) -> None:
    results = longshot.evaluate(
        beds / "fixed.parquet",
        backbones=["pixels", "pixels + pixels"],
        methods="protonet",
        out=tmp_path / "run",
    )
    single, double = results.summary()
    assert (double["backbone"], double["accuracy"]) == ("pixels + pixels", pytest.approx(single["accuracy"]))


def test_a_testbed_over_two_datasets(
    photos: Path, dataset: longshot.Dataset, beds: Path, tmp_path: Path
) -> None:
    other = longshot.open_dataset(photos / "round", name="round")
    second = longshot.sample(other, tasks=30, shape=longshot.FixedShape(3, 2, 4), seed=5)
    joined = longshot.Testbed.concat([second, longshot.Testbed.load(beds / "fixed.parquet")])
    results = longshot.evaluate(
        {"both": joined}, backbones="pixels", methods="protonet", out=tmp_path / "run"
    )
    table = results.table()
    assert table["task"].to_pylist() == list(range(230))
    assert table["dataset"].to_pylist() == ["round"] * 30 + [dataset.name] * 200
    assert results.summary()[0]["tasks"] == 230


def test_coarsity_comes_from_the_testbed(beds: Path, features: longshot.Features, tmp_path: Path) -> None:
    import pyarrow as pa

    old = longshot.Testbed.load(beds / "fixed.parquet")
    values = np.linspace(0, 1, len(old))
    names = [
        name for name in old.table.column_names if name != "coarsity"
    ]  # a taxonomy gives it to any testbed
    table = old.table.select(names).append_column("coarsity", pa.array(values))
    made = longshot.Testbed.create(table, datasets=old.datasets, sampler=old.meta["sampler"], seed=1)
    results = longshot.evaluate(made, backbones=features, methods="protonet", out=tmp_path / "run")
    assert results.table()["coarsity"].to_pylist() == pytest.approx(values.tolist())


class TestMistakes:
    """Each ends with one sentence before anything is computed."""

    def evaluate(self, beds: Path, features: longshot.Features, out: Path, **other: object) -> None:
        options = {"backbones": features, "methods": "protonet", "out": out, **other}
        longshot.evaluate(options.pop("testbeds", beds / "fixed.parquet"), **options)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"methods": "protonetz"}, "did you mean 'protonet'"),
            ({"methods": []}, "No method"),
            ({"backbones": "pixel"}, "pixels"),
            ({"backbones": []}, "No backbone"),
            ({"testbeds": []}, "No testbed"),
            ({"workers": 0}, "at least 1"),
            ({"backbones": "pixels", "datasets": {"nothere": "x"}}, "no testbed uses it"),
        ],
    )
    def test_wrong_request(
        self,
        beds: Path,
        features: longshot.Features,
        tmp_path: Path,
        change: dict[str, object],
        sentence: str,
    ) -> None:
        with pytest.raises(UserError, match=sentence):
            self.evaluate(beds, features, tmp_path / "run", **change)
        assert not (tmp_path / "run").exists()

    def test_foreign_folder(self, beds: Path, features: longshot.Features, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("mine")
        with pytest.raises(UserError, match=r"thesis\.txt.*not the folder of a run"):
            self.evaluate(beds, features, tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_features_of_another_dataset(
        self, beds: Path, features: longshot.Features, tmp_path: Path
    ) -> None:
        foreign = dataclasses.replace(features, fingerprint="0" * 64, dataset="birds")
        with pytest.raises(UserError, match="made from the dataset 'birds'"):
            self.evaluate(beds, foreign, tmp_path / "run")

    def test_features_with_too_few_rows(
        self, beds: Path, features: longshot.Features, tmp_path: Path
    ) -> None:
        short = dataclasses.replace(features, array=features.array[:10])
        with pytest.raises(UserError, match=r"shape \(10, 3072\).*240 rows"):
            self.evaluate(beds, short, tmp_path / "run")

    def test_nan_features_name_the_image(
        self, beds: Path, features: longshot.Features, tmp_path: Path
    ) -> None:
        array = np.array(features.array)
        array[:, 5] = np.nan
        with pytest.raises(UserError, match=r"'pixels' of .* NaN .* task 0 .*embed"):
            self.evaluate(beds, dataclasses.replace(features, array=array), tmp_path / "run", workers=1)

    def test_a_method_that_gives_nan_is_named(
        self, beds: Path, features: longshot.Features, tmp_path: Path
    ) -> None:
        class Broken(ProtoNet):
            def scores(self, batch: TaskBatch) -> Tensor:
                return super().scores(batch) * float("nan")

        with pytest.raises(UserError, match=r"method protonet returned NaN .* task 0 of testbed 'fixed'"):
            self.evaluate(beds, features, tmp_path / "run", methods=Broken(), workers=1)

    def test_a_method_of_the_wrong_shape_is_named(
        self, beds: Path, features: longshot.Features, tmp_path: Path
    ) -> None:
        class Broken(ProtoNet):
            def scores(self, batch: TaskBatch) -> Tensor:
                return super().scores(batch)[..., :2]

        with pytest.raises(UserError, match=r"protonet returned scores of the shape"):
            self.evaluate(beds, features, tmp_path / "run", methods=Broken())

    def test_one_name_for_two_testbeds(
        self, beds: Path, features: longshot.Features, dataset: longshot.Dataset, tmp_path: Path
    ) -> None:
        self.evaluate(beds, features, tmp_path / "run")
        other = longshot.sample(dataset, tasks=5, shape=longshot.FixedShape(2, 1, 1), seed=9)
        with pytest.raises(UserError, match="another testbed called 'fixed'"):
            self.evaluate(beds, features, tmp_path / "run", testbeds={"fixed": other})

    def test_one_name_for_two_features(self, beds: Path, features: longshot.Features, tmp_path: Path) -> None:
        self.evaluate(beds, features, tmp_path / "run")
        with pytest.raises(
            UserError, match=r"already holds results of the backbone 'pixels'.*another folder"
        ):
            stored_otherwise = dataclasses.replace(features, array=features.array.astype(np.float16))
            self.evaluate(beds, stored_otherwise, tmp_path / "run")

    def test_a_new_version_of_a_method(
        self, beds: Path, features: longshot.Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.evaluate(beds, features, tmp_path / "run")
        monkeypatch.setattr(ProtoNet, "version", 2)
        with pytest.raises(UserError, match=r"method protonet with another .*version"):
            self.evaluate(beds, features, tmp_path / "run")

    def test_a_damaged_run_json(self, beds: Path, features: longshot.Features, tmp_path: Path) -> None:
        self.evaluate(beds, features, tmp_path / "run")
        (tmp_path / "run" / "run.json").write_text(json.dumps({"format": 99}))
        with pytest.raises(UserError, match="not a run of format 1"):
            self.evaluate(beds, features, tmp_path / "run")

    def test_results_of_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="no such folder"):
            Results(tmp_path / "nothing")
