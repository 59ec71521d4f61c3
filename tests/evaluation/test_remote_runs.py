"""Runs at a URL: records of several writers added up, names that two give to different things, what is read back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import longshot
from longshot.base import UserError
from longshot.evaluation import Results, read_run
from longshot.evaluation.run_record import merged, new_run, write_run
from longshot.evaluation.run_stores import RemoteRun

fsspec = pytest.importorskip("fsspec", reason="needs the package fsspec")


@pytest.fixture
def memory() -> Iterator[Any]:
    """fsspec's file system in memory, empty."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


@pytest.fixture(scope="module")
def beds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two testbeds of equal name in two folders."""
    folder = tmp_path_factory.mktemp("beds")
    paths = {}
    for seed, name in enumerate(("a", "b")):
        paths[name] = folder / name / "test.parquet"
        longshot.sample("toybox", tasks=3, way=3, shot=1, query=2, split="test", seed=seed, out=paths[name])
    return paths


def evaluate(bed: Path, method: str, out: str | Path) -> Results:
    return longshot.evaluate(bed, backbones="pixels", methods=method, out=out)


def rows(results: Results) -> list[dict[str, Any]]:
    table = results.table().drop_columns(["seconds"]).to_pylist()
    return sorted(table, key=lambda row: (row["method"], row["task"]))


def in_between(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Let another evaluation do all its work when the first has read the run and has written nothing yet."""
    save, calls = RemoteRun.save, []

    def interrupted(store: RemoteRun, run: dict[str, Any]) -> None:
        calls.append(store)
        if len(calls) == 1:
            other()
        save(store, run)

    monkeypatch.setattr(RemoteRun, "save", interrupted)


def test_a_run_at_a_url_is_extended_and_read(memory: Any, beds: dict[str, Path], tmp_path: Path) -> None:
    evaluate(beds["a"], "protonet", "memory://runs/first")
    evaluate(beds["a"], "ridge", "memory://runs/first")
    local = longshot.evaluate(
        beds["a"], backbones="pixels", methods=["protonet", "ridge"], out=tmp_path / "run"
    )
    results = Results("memory://runs/first")
    assert rows(results) == rows(local) and not results.missing()
    assert results.name == "memory://runs/first" and [len(s) for s in (results.run["sessions"],)] == [2]
    assert all(session["finished"] for session in results.run["sessions"])
    # A plain copy of the folder is the same run.
    fsspec.filesystem("memory").get("/runs/first", str(tmp_path / "copy"), recursive=True)
    assert rows(Results(tmp_path / "copy")) == rows(local)


def test_who_begins_before_another_ends_sees_its_results_at_the_end(
    memory: Any, beds: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_between(monkeypatch, lambda: evaluate(beds["a"], "ridge", "memory://runs/first"))
    first = evaluate(beds["a"], "protonet", "memory://runs/first")
    assert {row["method"] for row in first.table().to_pylist()} == {"protonet", "ridge"}
    assert len(rows(first)) == len(rows(Results("memory://runs/first"))) == 6


def test_one_name_for_two_testbeds_is_refused_and_taken_back(
    memory: Any, beds: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_between(monkeypatch, lambda: evaluate(beds["b"], "protonet", "memory://runs/first"))
    with pytest.raises(
        UserError, match=r"Two testbeds were evaluated at once as 'test' .*; rename one of the files"
    ):
        evaluate(beds["a"], "protonet", "memory://runs/first")
    results = Results("memory://runs/first")
    assert len(rows(results)) == 3 and not results.missing()
    names = memory.find("/runs/first")
    assert not [name for name in names if "claim" in name]
    assert len([name for name in names if "/testbeds/" in name or "/part-" in name]) == 2


def test_a_writer_that_died_before_it_was_entered_is_not_counted(memory: Any, beds: dict[str, Path]) -> None:
    evaluate(beds["a"], "protonet", "memory://runs/first")
    record = memory.cat_file(next(name for name in memory.find("/runs/first/writers")))
    memory.pipe_file("/runs/first/writers/0123/claim/run.json", record)
    assert len(Results("memory://runs/first").run["sessions"]) == 1


def test_a_damaged_part_at_a_url_is_computed_anew(
    memory: Any, beds: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows(evaluate(beds["a"], "protonet", "memory://runs/first"))
    part = next(name for name in memory.find("/runs/first") if "/part-" in name)
    undamaged = memory.cat_file(part)
    memory.pipe_file(part, undamaged[:100])
    assert rows(evaluate(beds["a"], "protonet", "memory://runs/first")) == before
    assert "1 damaged result files in memory://runs/first are computed anew" in capsys.readouterr().err
    assert memory.cat_file(part) == undamaged


def test_records_add_up_in_any_order(tmp_path: Path, beds: dict[str, Path]) -> None:
    evaluate(beds["a"], "protonet", tmp_path / "one")
    evaluate(beds["a"], "ridge", tmp_path / "two")
    first, second = read_run(tmp_path / "one"), read_run(tmp_path / "two")
    ab, ba = merged(first, second), merged(second, first)
    key = str

    def plain(run: dict[str, Any]) -> dict[str, Any]:
        return {**run, "cells": sorted(run["cells"], key=key), "sessions": sorted(run["sessions"], key=key)}

    assert plain(ab) == plain(ba) and len(ab["cells"]) == 2
    assert merged(ab, second) == merged(ab, ab) == ab == merged(new_run(), ab) | {"format": 1}
    write_run(tmp_path / "sum", ab)
    assert read_run(tmp_path / "sum") == ab


def test_a_network_under_two_labels_is_one_series(tmp_path: Path, beds: dict[str, Path]) -> None:
    for label, folder in (("pixels", "one"), ("mine=pixels", "two")):
        longshot.evaluate(beds["a"], backbones=label, methods="protonet", out=tmp_path / folder)
    total = merged(read_run(tmp_path / "one"), read_run(tmp_path / "two"))
    assert [cell["backbone"] for cell in total["cells"]] == ["pixels"] and list(total["backbones"]) == [
        "pixels"
    ]
    other = copy.deepcopy(read_run(tmp_path / "two"))
    other["networks"] = {"0" * 64: {"label": "pixels"}}
    with pytest.raises(UserError, match="Two networks were evaluated at once as 'pixels'"):
        merged(read_run(tmp_path / "one"), other)


def test_choices_of_two_writers_add_up() -> None:
    def record(*values: Any) -> dict[str, Any]:
        return {**new_run(), "choices": {"x": {"measured": {"a": list(values)}, "chosen": None}}}

    total = merged(record([0.5, 1.0], None, None), record(None, [0.7, 0.9], None))
    assert total["choices"]["x"]["measured"] == {"a": [[0.5, 1.0], [0.7, 0.9], None]}
