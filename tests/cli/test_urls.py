"""The street by URL, as users type it: dataset, embed, sample, evaluate and report on a real S3 interface and the web."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from forked import ForkServer
from remote_servers import KEYS, bucket_files, flaky_proxy, s3_client, s3_server, web_server

pytest.importorskip("moto", reason="needs the package moto")
pytest.importorskip("s3fs", reason="needs the package s3fs")
DRAW = ("--tasks", "6", "--way", "3", "--shot", "1", "--query", "2")


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(s3: str, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket called ``shelf``, and an environment in which commands find it; the address of its server."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": s3}.items():
        monkeypatch.setenv(name, value)
    client = s3_client(s3)
    client.create_bucket(Bucket="shelf")
    yield s3
    for name in bucket_files(s3, "shelf"):
        client.delete_object(Bucket="shelf", Key=name)
    client.delete_bucket(Bucket="shelf")


@pytest.fixture(scope="module")
def some_photos(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes of six photos."""
    folder = tmp_path_factory.mktemp("few") / "photos"
    for number, kind in enumerate(sorted(path for path in photos.glob("*/*") if path.is_dir())[:4]):
        (folder / kind.relative_to(photos)).mkdir(parents=True)
        for file in sorted(kind.iterdir())[: 6 + number]:
            (folder / kind.relative_to(photos) / file.name).write_bytes(file.read_bytes())
    return folder


def put_folder(address: str, folder: Path, prefix: str) -> None:
    client = s3_client(address)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = f"{prefix}/{file.relative_to(folder).as_posix()}"
            client.put_object(Bucket="shelf", Key=name, Body=file.read_bytes())


def run_files(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def results_of(files: dict[str, bytes]) -> dict[str, bytes]:
    """What must be the same wherever it was computed: rows and testbeds, not times."""
    return {name: data for name, data in files.items() if name.startswith(("part-", "testbeds/"))}


def street(run_cli: RunCli, photos: str, base: str, cwd: Path) -> dict[str, Any]:
    """embed, sample, evaluate and report, with everything at ``base``."""
    run_cli("embed", photos, "--backbone", "pixels", "-o", f"{base}/pixels.npy", cwd=cwd)
    run_cli("sample", photos, *DRAW, "-o", f"{base}/test.parquet", cwd=cwd)
    run_cli(
        *("evaluate", f"{base}/test.parquet", "--features", f"{base}/pixels.npy", "--method", "protonet"),
        *("--dataset", f"photos={photos}", "-o", f"{base}/runs/first"),
        cwd=cwd,
    )
    run_cli("report", f"{base}/runs/first", "-o", "report.html", cwd=cwd)
    printed = run_cli("report", f"{base}/runs/first", "--format", "json", cwd=cwd)
    table: dict[str, Any] = json.loads(printed.stdout)
    return table


def test_street_in_a_bucket(
    bucket: str, some_photos: Path, run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_folder(bucket, some_photos, "photos")
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    by_url = street(run_cli, "s3://shelf/photos/", "s3://shelf", there)
    page = (there / "report.html").read_text(encoding="utf-8")
    assert "data:image/webp" in page and "shelf" not in page.lower().split("<body", 1)[0]
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "another"))
    on_disk = street(run_cli, str(some_photos), str(here), here)
    stored = bucket_files(bucket, "shelf")
    assert stored["test.parquet"] == (here / "test.parquet").read_bytes()
    assert stored["pixels.npy"] == (here / "pixels.npy").read_bytes()
    at_bucket = {n.removeprefix("runs/first/"): d for n, d in stored.items() if n.startswith("runs/first/")}
    local = run_files(here / "runs/first")
    assert results_of(at_bucket) == results_of(local) != {}
    assert {name.partition("/")[0] for name in at_bucket if not name.startswith("part-")} == {
        "run.json",
        "seconds",
        "testbeds",
        "writers",
    }
    strip = json.dumps(by_url, sort_keys=True), json.dumps(on_disk, sort_keys=True)
    assert len(strip[0]) > 100 and _without_times(by_url) == _without_times(on_disk)


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if "second" not in key}
    return [_without_times(each) for each in value] if isinstance(value, list) else value
