"""The real command: table, JSON, dry run, mistakes, kill and Ctrl-C."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from forked import ForkedProcess, ForkServer
from longshot.models import VARIANTS

Start = Callable[[Path, Path], ForkedProcess]
KEPT = ("part-*.parquet", "testbeds/*.parquet")


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for pattern in KEPT for p in folder.glob(pattern)}


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def long_bed(dataset: longshot.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough tasks that an evaluation can be caught in the middle."""
    path = tmp_path_factory.mktemp("long") / "long.parquet"
    shape = longshot.AnyShape(max_way=5, max_shot=3, query=5)
    longshot.sample(dataset, tasks=2000, shape=shape, seed=3).save(path)
    longshot.embed(dataset, "pixels")
    return path


@pytest.fixture(scope="module")
def start(forks: ForkServer) -> Start:
    """Start the real command."""
    methods = ["--method", "protonet", "--method", "protonet(distance='cosine')"]

    def begin(bed: Path, out: Path) -> ForkedProcess:
        return forks.start("evaluate", bed, "--backbone", "pixels", *methods, "-o", out, "--device", "cpu")

    return begin


@pytest.fixture(scope="module")
def full_run(long_bed: Path, start: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    process = start(long_bed, out)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out


def interrupt(start: Start, bed: Path, out: Path, sent: signal.Signals) -> tuple[int, str]:
    """Start an evaluation and send it a signal as soon as some results are there."""
    process = start(bed, out)
    while process.poll() is None and len(list(out.glob("part-*.parquet"))) < 2:
        time.sleep(0.002)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind exist on POSIX only")
@pytest.mark.parametrize("sent", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_interrupted_and_run_again_gives_the_same_files(
    long_bed: Path, full_run: Path, start: Start, tmp_path: Path, sent: signal.Signals
) -> None:
    folder = tmp_path / "run"
    code, errors = interrupt(start, long_bed, folder, sent)
    assert code == (-9 if sent == signal.SIGKILL else 130), errors
    assert "Traceback" not in errors
    assert 2 <= len(list(folder.glob("part-*"))) < len(list(full_run.glob("part-*")))  # it was in the middle
    process = start(long_bed, folder)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert files(folder) == files(full_run)
    assert listing(folder) == listing(full_run)  # nothing half-written stays
    resumed, expected = (json.loads((path / "run.json").read_text()) for path in (folder, full_run))
    assert [session["finished"] is None for session in resumed.pop("sessions")] == [True, False]
    expected.pop("sessions")
    assert resumed.pop("checksum") != expected.pop("checksum")
    assert resumed == expected


def test_table_with_intervals(run_cli: Any, beds: Path, dataset: longshot.Dataset, tmp_path: Path) -> None:
    done = run_cli(
        "evaluate",
        beds / "fixed.parquet",
        "--backbone",
        "pixels",
        "--method",
        "protonet",
        "-o",
        tmp_path / "run",
    )
    assert "fixed" in done.stdout
    assert "±" in done.stdout


def test_json_holds_the_summary(run_cli: Any, beds: Path, dataset: longshot.Dataset, tmp_path: Path) -> None:
    command = [
        "evaluate",
        beds / "fixed.parquet",
        beds / "any.parquet",
        "--backbone",
        "pixels",
        "--method",
        "protonet",
    ]
    done = run_cli(*command, "-o", tmp_path / "run", "--json")
    summary = json.loads(done.stdout)
    assert [record["testbed"] for record in summary] == ["fixed", "any"]
    assert summary == longshot.Results(tmp_path / "run").summary()


def test_dry_run_estimates_and_writes_nothing(
    run_cli: Any, beds: Path, dataset: longshot.Dataset, tmp_path: Path
) -> None:
    command = ["evaluate", beds / "fixed.parquet", "--backbone", "pixels", "--method", "protonet"]
    command += ["-o", tmp_path / "run", "--json"]
    before = json.loads(run_cli(*command, "--dry-run").stdout)[-1]
    assert (before["step"], before["left"]) == ("evaluate", 200)
    assert before["seconds"] > 0
    assert not (tmp_path / "run").exists()
    run_cli(*command)
    assert json.loads(run_cli(*command, "--dry-run").stdout)[-1]["left"] == 0


def test_features_file_in_place_of_a_backbone(
    run_cli: Any, beds: Path, features: longshot.Features, tmp_path: Path
) -> None:
    features.save(tmp_path / "mine.npy")
    command = ["evaluate", beds / "any.parquet", "--method", "protonet", "-o", tmp_path / "run", "--json"]
    done = run_cli(*command, "--features", tmp_path / "mine.npy")
    assert json.loads(done.stdout)[0]["tasks"] == 150


class TestMistakes:
    """One sentence, exit code 2, no traceback, no run folder."""

    def fails(self, run_cli: Any, tmp_path: Path, *args: str | Path) -> str:
        done = run_cli("evaluate", *args, "-o", tmp_path / "run", check=False)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1, (
            done.stderr
        )
        assert not (tmp_path / "run").exists()
        return str(done.stderr)

    def test_unknown_method(self, run_cli: Any, beds: Path, tmp_path: Path) -> None:
        sentence = self.fails(
            run_cli, tmp_path, beds / "any.parquet", "--backbone", "pixels", "--method", "protonte"
        )
        assert "did you mean 'protonet'" in sentence

    def test_unknown_setting(self, run_cli: Any, beds: Path, tmp_path: Path) -> None:
        method = "protonet(shots=3)"
        sentence = self.fails(
            run_cli, tmp_path, beds / "any.parquet", "--backbone", "pixels", "--method", method
        )
        assert "distance='euclidean'" in sentence

    def test_no_backbone(self, run_cli: Any, beds: Path, tmp_path: Path) -> None:
        assert "--backbone" in self.fails(run_cli, tmp_path, beds / "any.parquet", "--method", "protonet")

    def test_truncated_testbed(self, run_cli: Any, beds: Path, tmp_path: Path) -> None:
        path = tmp_path / "cut.parquet"
        path.write_bytes((beds / "any.parquet").read_bytes()[:500])
        sentence = self.fails(run_cli, tmp_path, path, "--backbone", "pixels", "--method", "protonet")
        assert "truncated" in sentence

    def test_missing_testbed(self, run_cli: Any, tmp_path: Path) -> None:
        sentence = self.fails(
            run_cli, tmp_path, tmp_path / "no.parquet", "--backbone", "pixels", "--method", "protonet"
        )
        assert "no testbed file" in sentence

    def test_dataset_that_changed(
        self, run_cli: Any, photos: Path, tmp_path: Path, fresh_cache: Path
    ) -> None:
        copy = tmp_path / "album"
        shutil.copytree(photos, copy)
        run_cli(
            "sample",
            copy,
            "--tasks",
            "5",
            "--way",
            "3",
            "--shot",
            "1",
            "--query",
            "2",
            "-o",
            tmp_path / "b.parquet",
        )
        for path in sorted(copy.rglob("*.jpg"))[::6]:
            path.unlink()
        sentence = self.fails(
            run_cli, tmp_path, tmp_path / "b.parquet", "--backbone", "pixels", "--method", "protonet"
        )
        assert "album" in sentence
        elsewhere = ["--dataset", f"album={copy}"]
        sentence = self.fails(
            run_cli,
            tmp_path,
            tmp_path / "b.parquet",
            "--backbone",
            "pixels",
            "--method",
            "protonet",
            *elsewhere,
        )
        assert "changed" in sentence

    def test_nan_features(
        self, run_cli: Any, beds: Path, features: longshot.Features, tmp_path: Path
    ) -> None:
        array = np.array(features.array)
        array[17, 3] = np.nan
        dataclasses.replace(features, array=array).save(tmp_path / "mine.npy")
        sentence = self.fails(
            run_cli,
            tmp_path,
            beds / "any.parquet",
            "--features",
            tmp_path / "mine.npy",
            "--method",
            "protonet",
        )
        assert "NaN" in sentence

    def test_features_of_other_dimensions(
        self, run_cli: Any, beds: Path, features: longshot.Features, tmp_path: Path
    ) -> None:
        features.save(tmp_path / "mine.npy")
        np.save(tmp_path / "mine.npy", np.zeros((240, 7), np.float32))
        sentence = self.fails(
            run_cli,
            tmp_path,
            beds / "any.parquet",
            "--features",
            tmp_path / "mine.npy",
            "--method",
            "protonet",
        )
        assert "240 × 7" in sentence

    def test_a_run_folder_in_use(
        self, run_cli: Any, beds: Path, dataset: longshot.Dataset, tmp_path: Path
    ) -> None:
        fcntl = pytest.importorskip("fcntl")
        folder = tmp_path / "busy"
        folder.mkdir()
        with (folder / ".lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            command = ["evaluate", beds / "any.parquet", "--backbone", "pixels", "--method", "protonet"]
            done = run_cli(*command, "-o", folder, check=False)
        assert done.returncode == 2
        assert "Another evaluation is writing to" in done.stderr


def test_a_variant_runs_its_methods_and_the_run_says_so(
    run_cli: Any, dataset: longshot.Dataset, tmp_path: Path
) -> None:
    bed, out = tmp_path / "bed.parquet", tmp_path / "run"
    longshot.sample(dataset, tasks=4, way=3, shot=1, query=2, out=bed)
    run_cli("evaluate", bed, "--backbone", "pixels", "--variant", "semantic-paper", "-o", out)
    methods = json.loads((out / "run.json").read_text())["methods"]
    assert sorted(methods) == sorted(VARIANTS["semantic-paper"].calls)
    assert {facts["variant"] for facts in methods.values()} == {"semantic-paper"}
    same = longshot.evaluate(bed, backbones="pixels", methods="tim", variant="semantic-paper")
    (row,) = (row for row in longshot.Results(out).summary() if row["method"].startswith("tim"))
    assert same.summary()[0]["loss"] == row["loss"]
    done = run_cli("evaluate", bed, "--backbone", "pixels", "-o", out, check=False)
    assert done.returncode == 2 and "No method was given and at least 1 is needed" in done.stderr
