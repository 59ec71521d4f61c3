"""The street by URL, as users type it: embed, sample, evaluate and report on a real S3 interface and the web."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from conftest import RunCli
from forked import ForkServer
from remote_servers import KEYS, bucket_files, flaky_proxy, s3_client, s3_server, web_server

pytest.importorskip("moto", reason="needs the package moto")
pytest.importorskip("s3fs", reason="needs the package s3fs")
NETWORK = """
import torch
from torch import nn


def tiny():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    net.preprocessing = "decode|resize(20,20)|normalize(0.5,0.25)"
    return net
"""
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
    s3_client(s3).create_bucket(Bucket="shelf")
    yield s3
    urlopen(Request(f"{s3}/moto-api/reset", method="POST")).close()


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
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }


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


@pytest.mark.long
def test_two_evaluations_write_to_one_run_at_once(
    bucket: str, some_photos: Path, run_cli: RunCli, forks: ForkServer, tmp_path: Path
) -> None:
    run_cli("sample", str(some_photos), *DRAW, "-o", "s3://shelf/test.parquet")
    shared = ("evaluate", "s3://shelf/test.parquet", "--backbone", "pixels", "-o", "s3://shelf/runs/first")
    methods = [("ridge", "protonet"), ("protonet", "matching")]
    writers = [forks.start(*shared, *(f"--method={name}" for name in names)) for names in methods]
    for writer in writers:
        out, err = writer.communicate()
        assert writer.wait() == 0, out + err
    run_cli(*("evaluate", "s3://shelf/test.parquet", "--backbone", "pixels", "-o", tmp_path / "local"),
            *("--method", "ridge", "--method", "protonet", "--method", "matching"))  # fmt: skip
    local, stored = run_files(tmp_path / "local"), bucket_files(bucket, "shelf")
    at_bucket = {n.removeprefix("runs/first/"): d for n, d in stored.items() if n.startswith("runs/first/")}
    assert results_of(at_bucket) == results_of(local)
    printed = run_cli("report", "s3://shelf/runs/first", "--format", "csv", "-o", "-").stdout
    assert printed.count("ridge") == 1 and printed.count("matching") == 1 and printed.count("protonet") == 1
    assert len([name for name in at_bucket if name.startswith("writers/")]) == 2
    assert not [name for name in at_bucket if "claim" in name or "write-test" in name]


@pytest.mark.long
def test_a_run_is_resumed_from_the_bucket_on_another_machine(
    bucket: str, some_photos: Path, run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = s3_client(bucket)
    run_cli("sample", str(some_photos), *DRAW, "-o", "s3://shelf/test.parquet")
    command = (
        *("evaluate", "s3://shelf/test.parquet", "--backbone", "pixels", "-o", "s3://shelf/runs/first"),
        *("--method", "ridge", "--method", "protonet", "--dataset", f"photos={some_photos}"),
    )
    run_cli(*command)
    before = bucket_files(bucket, "shelf")
    parts = sorted(name for name in before if name.startswith("runs/first/part-"))
    client.delete_object(Bucket="shelf", Key=parts[0])  # as if the first machine had died before it
    client.put_bucket_versioning(Bucket="shelf", VersioningConfiguration={"Status": "Enabled"})
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "another"))
    run_cli(*command)
    assert bucket_files(bucket, "shelf")[parts[0]] == before[parts[0]]
    written = client.list_object_versions(Bucket="shelf", Prefix="runs/first/part-")["Versions"]
    fresh = {version["Key"] for version in written if version["VersionId"] != "null"}
    assert fresh == {parts[0]}


def test_the_web_serves_testbed_and_dataset(
    some_photos: Path, fresh_cache: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    with zipfile.ZipFile(site / "photos.zip", "w") as archive:
        for file in sorted(path for path in some_photos.rglob("*") if path.is_file()):
            archive.write(file, f"photos/{file.relative_to(some_photos).as_posix()}")
    run_cli("sample", site / "photos.zip", *DRAW, "-o", site / "test.parquet")
    evaluate = ("evaluate", "--backbone", "pixels", "--method", "protonet")
    run_cli(*evaluate, site / "test.parquet", "-o", site / "first")
    run_cli("datasets", "forget", "photos")
    with web_server(site) as (address, requests):
        where = ("--dataset", f"photos={address}/photos.zip")
        run_cli(*evaluate, f"{address}/test.parquet", *where, "-o", tmp_path / "second")
        assert requests.count("GET /photos.zip") == 1
        printed = run_cli("compare", f"{address}/first", tmp_path / "second", "--json").stdout
        assert json.loads(printed)
        assert requests.count("GET /photos.zip") == 1
        refused = run_cli(*evaluate, f"{address}/test.parquet", *where, "-o", f"{address}/third", check=False)
        assert refused.returncode == 2 and "can be read but not written" in refused.stderr
        kinds = json.loads(run_cli("cache", "--json").stdout)["kinds"]
        assert [kind["entries"] for kind in kinds if kind["kind"] == "remote"] == [3]
        freed = run_cli("cache", "prune", "--remote", "--yes").stdout
        assert "freed" in freed and not (fresh_cache / "remote").exists()
    assert results_of(run_files(tmp_path / "second")) == results_of(run_files(site / "first"))


def test_only_places_take_urls(run_cli: RunCli, tmp_path: Path, fresh_cache: Path) -> None:
    done = run_cli("tune", "protonet", "toybox", "-o", "s3://b/x", check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "s3://b/x is a URL, and -o takes a path on this machine." in done.stderr
    assert not list(tmp_path.glob("s3*"))


def one_sentence(text: str) -> str:
    """What a command said, which is one line beginning with ``error:``."""
    lines = [line for line in text.splitlines() if not line.startswith("note:")]
    assert len(lines) == 1 and "Traceback" not in text, text
    return lines[0]


@pytest.mark.long
def test_bad_buckets_are_one_sentence_and_nothing_is_written(
    bucket: str, some_photos: Path, run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = tmp_path / "test.parquet"
    run_cli("sample", str(some_photos), *DRAW, "-o", bed)

    def fails(*arguments: str | Path) -> str:
        done = run_cli(*arguments, check=False, cwd=tmp_path)
        assert done.returncode == 2 and not done.stdout, done.stdout + done.stderr
        return one_sentence(done.stderr)

    evaluate = ("evaluate", bed, "--backbone", "pixels", "--method", "protonet", "-o")
    absent = "there is no bucket 'none'; create it or correct its name."
    assert absent in fails("sample", "s3://none/photos.zip", "-o", "x.parquet")
    assert absent in fails("sample", str(some_photos), "-o", "s3://none/x.parquet")
    assert absent in fails(*evaluate, "s3://none/runs/first")
    assert "There is nothing at s3://shelf/none.zip" in fails(
        "sample", "s3://shelf/none.zip", "-o", "x.parquet"
    )
    assert "There is nothing at s3://shelf/run" in fails("report", "s3://shelf/run", "-o", "page.html")
    s3_client(bucket).put_object(Bucket="shelf", Key="other/a.txt", Body=b"x")
    assert "s3://shelf/other holds 1 other file, such as 'a.txt'" in fails(*evaluate, "s3://shelf/other")
    assert "s3://shelf/other is not the folder of a run: it has no run.json" in fails(
        "compare", "s3://shelf/other"
    )
    assert set(bucket_files(bucket, "shelf")) == {"other/a.txt"}
    assert not (tmp_path / "x.parquet").exists() and not (tmp_path / "page.html").exists()
    assert [entry["Name"] for entry in s3_client(bucket).list_buckets()["Buckets"]] == ["shelf"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "its host cannot be reached" in fails("sample", "s3://shelf/photos.zip", "-o", "x.parquet")


@pytest.fixture(scope="module")
def guarded_s3() -> Iterator[str]:
    """An S3 interface that asks who one is: the first requests of ``testing`` may do all, later ones as IAM says."""
    with s3_server(INITIAL_NO_AUTH_ACTION_COUNT="6") as address:
        yield address


@pytest.mark.long
def test_a_bucket_without_permission_is_one_sentence(
    guarded_s3: str,
    some_photos: Path,
    fresh_cache: Path,
    run_cli: RunCli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import boto3

    settings = {"endpoint_url": guarded_s3, "region_name": "us-east-1"}
    owner = boto3.client("iam", aws_access_key_id="testing", aws_secret_access_key="testing", **settings)
    owner.create_user(UserName="reader")
    key = owner.create_access_key(UserName="reader")["AccessKey"]
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}],
    }
    owner.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=json.dumps(policy))
    client = s3_client(guarded_s3)
    client.create_bucket(Bucket="shelf")
    bed = tmp_path / "test.parquet"
    run_cli("sample", str(some_photos), *DRAW, "-o", bed)
    client.put_object(Bucket="shelf", Key="test.parquet", Body=bed.read_bytes())
    client.list_objects_v2(Bucket="shelf")  # the last of the six: from now on IAM is asked
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": guarded_s3}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    evaluate = ("evaluate", "--backbone", "pixels", "--method", "protonet")
    run_cli(*evaluate, "s3://shelf/test.parquet", "-o", tmp_path / "local")  # what may be read is read
    remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to keys that may."
    for arguments, target in (
        ((*evaluate, bed, "-o", "s3://shelf/runs/first"), "s3://shelf/runs/first"),
        (("sample", str(some_photos), *DRAW, "-o", "s3://shelf/x.parquet"), "s3://shelf/x.parquet"),
        (("report", tmp_path / "local", "-o", "s3://shelf/page.html"), "s3://shelf/page.html"),
    ):
        done = run_cli(*arguments, check=False)
        assert done.returncode == 2
        assert f"{target} may not be written: access is denied; {remedy}" in one_sentence(done.stderr)
    names = [entry["Key"] for entry in s3_client(guarded_s3, key=key["AccessKeyId"], secret=key["SecretAccessKey"])
             .list_objects_v2(Bucket="shelf")["Contents"]]  # fmt: skip
    assert names == ["test.parquet"]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    done = run_cli("inspect", "s3://shelf/test.parquet", check=False)
    assert "s3://shelf/test.parquet may not be read: access is denied" in one_sentence(done.stderr)


@pytest.mark.long
def test_the_street_with_every_tenth_request_failing(
    bucket: str, some_photos: Path, run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_folder(bucket, some_photos, "photos")
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    with flaky_proxy(bucket, every=10) as (address, failed):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        by_url = street(run_cli, "s3://shelf/photos/", "s3://shelf", tmp_path / "there")
        assert len(failed) >= 6 and {line.split()[0] for line in failed} >= {"GET"}
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "another"))
    on_disk = street(run_cli, str(some_photos), str(tmp_path / "here"), tmp_path / "here")
    stored, local = bucket_files(bucket, "shelf"), run_files(tmp_path / "here")
    assert results_of(_inside(stored, "runs/first/")) == results_of(_inside(local, "runs/first/")) != {}
    for name in ("test.parquet", "pixels.npy"):
        assert stored[name] == local[name]
    assert _without_times(by_url) == _without_times(on_disk)


def _inside(files: dict[str, bytes], folder: str) -> dict[str, bytes]:
    return {name.removeprefix(folder): data for name, data in files.items() if name.startswith(folder)}


@pytest.mark.long
def test_a_killed_evaluation_goes_on_from_the_bucket(
    bucket: str,
    some_photos: Path,
    run_cli: RunCli,
    forks: ForkServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_cli("sample", str(some_photos), *DRAW[2:], "--tasks", "40", "-o", "s3://shelf/test.parquet")
    (tmp_path / "net.py").write_text(NETWORK)
    command = (
        *("evaluate", "s3://shelf/test.parquet", "--backbone", f"torch:{tmp_path / 'net.py'}:tiny"),
        *("--method", "finetune-all(lr=0.001, steps=20)"),
        *("--dataset", f"photos={some_photos}", "--workers", "1", "-o"),
    )
    process = forks.start(*command, "s3://shelf/runs/first")

    def parts() -> dict[str, bytes]:
        return {name: data for name, data in bucket_files(bucket, "shelf").items() if "/part-" in name}

    while len(parts()) < 2 and process.poll() is None:
        time.sleep(0.1)
    assert process.poll() is None, process.communicate()
    process.kill()
    process.wait()
    before = parts()
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "another"))
    done = run_cli(*command, "s3://shelf/runs/first")
    assert 2 <= len(before) < len(parts()) and before.items() <= parts().items(), done.stderr
    run_cli(*command, tmp_path / "local")
    stored = _inside(bucket_files(bucket, "shelf"), "runs/first/")
    assert results_of(stored) == results_of(run_files(tmp_path / "local"))


@pytest.mark.long
def test_four_writers_through_a_failing_line(
    bucket: str,
    some_photos: Path,
    run_cli: RunCli,
    forks: ForkServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_cli("sample", str(some_photos), *DRAW[2:], "--tasks", "300", "-o", "s3://shelf/test.parquet")
    shared = ("evaluate", "s3://shelf/test.parquet", "--backbone", "pixels", "-o")
    names = ("protonet", "ridge", "matching", "nearest-neighbour")
    with flaky_proxy(bucket, every=10) as (address, failed):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        writers = [
            forks.start(*shared, "s3://shelf/runs/first", "--method", name, "--method", names[number - 1])
            for number, name in enumerate(names)
        ]
        for writer in writers:
            out, err = writer.communicate()
            assert writer.wait() == 0, out + err
    assert failed
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket)
    run_cli(*shared, tmp_path / "local", *(f"--method={name}" for name in names))
    stored = _inside(bucket_files(bucket, "shelf"), "runs/first/")
    assert results_of(stored) == results_of(run_files(tmp_path / "local"))
    printed = run_cli("report", "s3://shelf/runs/first", "--format", "csv", "-o", "-").stdout
    assert [printed.count(name) for name in names] == [1, 1, 1, 1]
