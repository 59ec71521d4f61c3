"""Files by URL: fetched once, kept by digest, noticed when they change, put whole or not at all."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from longshot.base import (
    UserError,
    atomic,
    is_cached,
    is_url,
    local_copy,
    opened_copy,
    remote,
    shown_location,
    write_text,
)
from longshot.base.urls import base_name
from longshot.models import cache_entries, prune_cache
from remote_servers import served, web_server

fsspec = pytest.importorskip("fsspec", reason="needs the package fsspec")
pytestmark = pytest.mark.usefixtures("fresh_cache")


@pytest.fixture
def memory() -> Iterator[Any]:
    """fsspec's file system in memory, empty."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }


def blobs(cache: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes() for file in (cache / "remote" / "blobs").rglob("*") if file.is_file()
    }


def test_what_is_a_url() -> None:
    assert is_url("s3://b/x") and is_url("https://h/x") and is_url("memory://x")
    assert not any(map(is_url, ("C:/x", "C://x", "runs/first", "coco:/data", Path("s3://b/x"))))
    assert base_name("https://host/a/My%20photos.zip?x=1") == "My%20photos.zip"


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "pause", lambda _: None)
    url = "https://me:secret@host:81/a.zip?X-Amz-Signature=f00"
    assert shown_location(url) == "https://host:81/a.zip"
    with pytest.raises(UserError) as caught:
        local_copy("http://me:secret@127.0.0.1:9/a.zip?X-Amz-Signature=f00")
    assert "secret" not in str(caught.value) and "f00" not in str(caught.value)


def test_a_folder_is_fetched_once_and_kept_by_digest(
    memory: Any, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {"a.txt": b"one", "deep/b.txt": b"two", "deep/c.txt": b"one"}
    for name, data in content.items():
        memory.pipe_file(f"/box/{name}", data)
    copy = local_copy("memory://box/")
    assert files_below(copy) == content and copy.name == "box"
    assert {name: hashlib.sha256(data).hexdigest() for name, data in blobs(fresh_cache).items()} == {
        hashlib.sha256(data).hexdigest(): hashlib.sha256(data).hexdigest() for data in (b"one", b"two")
    }
    monkeypatch.setattr(remote, "fetch", lambda *_: pytest.fail("fetched again"))
    assert local_copy("memory://box/") == copy
    assert is_cached("memory://box/") and not is_cached("memory://box")


def test_a_change_is_noticed_and_only_it_is_fetched(
    memory: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        memory.pipe_file(f"/box/{name}.txt", name.encode())
    before = local_copy("memory://box")
    memory.pipe_file("/box/b.txt", b"B")  # as long as before
    memory.rm_file("/box/c.txt")
    fetched: list[str] = []
    fetch = remote.fetch
    monkeypatch.setattr(
        remote, "fetch", lambda url, each, *more: (fetched.append(each.path), fetch(url, each, *more))
    )
    after = local_copy("memory://box")
    assert files_below(after) == {"a.txt": b"a", "b.txt": b"B"} and fetched == ["/box/b.txt"]
    assert files_below(before) == {"a.txt": b"a", "b.txt": b"b", "c.txt": b"c"}  # whoever reads it goes on
    notes = capsys.readouterr().err
    assert "memory://box has changed since it was last fetched: 1 file fetched again or new, 1 gone" in notes


def test_what_changes_while_it_is_fetched_is_fetched_again(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe_file("/box/a.txt", b"old")
    fetch, rounds = remote.fetch, []

    def meddle(*arguments: Any) -> None:
        fetch(*arguments)
        if not rounds:
            memory.pipe_file("/box/a.txt", b"new")
        rounds.append(1)

    monkeypatch.setattr(remote, "fetch", meddle)
    assert files_below(local_copy("memory://box")) == {"a.txt": b"new"} and len(rounds) == 2


def test_atomic_puts_all_or_nothing(memory: Any, fresh_cache: Path) -> None:
    write_text("memory://box/a.txt", "first")
    with pytest.raises(RuntimeError), atomic("memory://box/a.txt") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert memory.cat_file("/box/a.txt") == b"first"
    assert not list((fresh_cache / "remote" / "work").iterdir())


def test_where_puts_are_not_whole_a_file_is_renamed(memory: Any) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    class Slow(MemoryFileSystem):
        """A driver that has half a file under its name while it is written, as those of file servers do."""

        protocol = "slowmemory"

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            stripped: str = super()._strip_protocol(path.replace("slowmemory://", "memory://"))
            return stripped

        def put_file(self, lpath: str, rpath: str, **settings: Any) -> None:
            self.pipe_file(rpath, b"half")
            if broken:
                raise ValueError("the line broke")
            super().put_file(lpath, rpath, **settings)

    broken = False
    fsspec.register_implementation("slowmemory", Slow, clobber=True)
    write_text("slowmemory://box/a.txt", "first")
    broken = True
    with pytest.raises(UserError, match=r"slowmemory://box/a.txt cannot be written .the line broke."):
        write_text("slowmemory://box/a.txt", "second")
    assert {name: memory.cat_file(name) for name in memory.find("/")} == {"/box/a.txt": b"first"}


@pytest.mark.parametrize(
    ("names", "fact"),
    [
        (["/box/../evil.txt"], "holds '../evil.txt', which cannot be a file here"),
        (["/box/a", "/box/a/b"], "holds 'a' as a file and as a folder"),
    ],
)
def test_names_that_leave_the_folder_are_refused(
    memory: Any, monkeypatch: pytest.MonkeyPatch, fresh_cache: Path, names: list[str], fact: str
) -> None:
    infos = {name: {"name": name, "size": 1, "type": "file", "created": 1} for name in names}
    monkeypatch.setattr(type(memory), "find", lambda *_, **__: infos)  # as a bucket may answer
    with pytest.raises(UserError, match=fact):
        local_copy("memory://box/")
    assert not list(fresh_cache.rglob("evil.txt"))


def test_a_path_stays_a_path_and_a_swallowed_slash_is_told(tmp_path: Path) -> None:
    assert local_copy(tmp_path) == tmp_path
    assert local_copy(f"file://{tmp_path}") == tmp_path
    with pytest.raises(UserError, match="lost a slash when it became a Path; give it as text"):
        local_copy(Path("s3://bucket/photos.zip"))


def test_sentences_are_about_the_url(memory: Any) -> None:
    memory.pipe_file("/box/a.txt", b"x")
    with (
        pytest.raises(UserError, match=r"^memory://box/a.txt is bad."),
        opened_copy("memory://box/a.txt") as copy,
    ):
        raise UserError(f"{copy} is bad.")


def test_the_web_is_read_by_what_its_pages_list(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "photos" / "My cats").mkdir(parents=True)
    (site / "photos" / "My cats" / "ä 1.txt").write_bytes(b"cat")
    (site / "photos" / "b.txt").write_bytes(b"b")
    (site / "elsewhere.txt").write_bytes(b"not asked for")
    with web_server(site) as (address, requests):
        for url in (f"{address}/photos/", f"{address}/photos"):
            assert files_below(local_copy(url)) == {"My cats/ä 1.txt": b"cat", "b.txt": b"b"}
        fetched = len([line for line in requests if line.startswith("GET") and ".txt" in line])
        assert fetched == 4 and not any("elsewhere" in line for line in requests)
        local_copy(f"{address}/photos/")
        assert fetched == len([line for line in requests if line.startswith("GET") and ".txt" in line])
        one_file = local_copy(f"{address}/photos/My%20cats/%C3%A4%201.txt")
        assert one_file.read_bytes() == b"cat" and one_file.name == "ä 1.txt"
        with pytest.raises(UserError, match=r"There is nothing at http://127.0.0.1:[0-9]+/none.zip"):
            local_copy(f"{address}/none.zip")
        with pytest.raises(
            UserError, match="can be read but not written, as all of the web; write to a path"
        ):
            write_text(f"{address}/new.txt", "x")


class _Failing(BaseHTTPRequestHandler):
    """Says that a file has ten bytes; sends four, or refuses, as its path tells."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.send_header("ETag", '"1"')
        self.end_headers()

    def do_GET(self) -> None:
        self.server.requests.append(self.path)  # type: ignore[attr-defined]
        if self.path.startswith("/cut"):
            self.do_HEAD()
            self.wfile.write(b"four")
            return
        self.send_response(int(self.path[1:4]))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("path", "fact", "tries"),
    [
        ("cut.zip", "its host cannot be reached or breaks off", 5),
        ("503.zip", "its server answers 503 again and again; try again later", 5),
        ("403.zip", "may not be read: access is denied", 1),
        ("418.zip", "its server answers 418; try again later", 1),
    ],
)
def test_half_a_download_is_no_cache_entry(
    path: str, fact: str, tries: int, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "pause", lambda _: None)
    with served(_Failing) as server:
        url = f"http://127.0.0.1:{server.server_port}/{path}"
        with pytest.raises(UserError, match=fact):
            local_copy(url)
        assert server.requests == [f"/{path}"] * tries
    assert not blobs(fresh_cache) and not is_cached(url)
    assert not list((fresh_cache / "remote").rglob("*.tmp"))


def test_bad_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "pause", lambda _: None)
    expected = {
        "http://127.0.0.1:9/a.zip": "cannot be read: its host cannot be reached",
        "foo://bucket/a.zip": "There is no way to reach 'foo://', as in foo://bucket/a.zip; use s3://, https://",
        "memory://none.zip": "There is nothing at memory://none.zip; correct the address",
    }
    for url, fact in expected.items():
        with pytest.raises(UserError) as caught:
            local_copy(url)
        assert fact in str(caught.value)


def test_a_missing_driver_is_told_with_the_command() -> None:
    program = """
import sys
from longshot.base.urls import local_copy
for module, url in (("fsspec", "s3://b/x"), ("s3fs", "s3://b/x"), ("aiohttp", "https://h/x"), ("gcsfs", "gs://b/x")):
    sys.modules[module] = None  # as where it is not installed
    try:
        local_copy(url)
    except Exception as error:
        print(error)
    del sys.modules[module]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "s3://b/x needs fsspec, which is not installed; pip install 'longshot[remote]'.",
        "s3://b/x needs s3fs, which is not installed; pip install 'longshot[remote]'.",
        "https://h/x needs aiohttp, which is not installed; pip install 'longshot[remote]'.",
        "gs://b/x needs gcsfs, which is not installed; pip install gcsfs.",
    ], done.stderr


def test_the_cache_lists_and_prunes_urls(memory: Any, fresh_cache: Path) -> None:
    memory.pipe_file("/box/a.bin", b"a" * 5000)
    memory.pipe_file("/box/b.bin", b"b" * 3000)
    local_copy("memory://box")
    local_copy("memory://box/b.bin")
    listed = {entry.name: entry for entry in cache_entries() if entry.kind == "remote"}
    assert set(listed) == {"memory://box", "memory://box/b.bin"}
    assert 8000 < listed["memory://box"].bytes < 10_000
    prune_cache([listed["memory://box"]])
    assert not is_cached("memory://box") and is_cached("memory://box/b.bin")
    assert local_copy("memory://box/b.bin").read_bytes() == b"b" * 3000
    memory.pipe_file("/box/b.bin", b"c" * 3000)
    local_copy("memory://box/b.bin")
    names = {entry.name for entry in cache_entries() if entry.kind == "remote"}
    assert names == {"memory://box/b.bin", "former versions"}
    prune_cache([entry for entry in cache_entries() if entry.kind == "remote"])
    assert not (fresh_cache / "remote").exists()


def test_what_writes_here_alone_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import longshot

    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"s3://b/x is a URL, and longshot.make_split writes to this machine alone"
    ):
        longshot.make_split("toybox", random=True, out="s3://b/x")
    with pytest.raises(UserError, match=r"'s3:/b/x.json' was a URL, and it is written to this machine alone"):
        write_text(Path("s3://b/x.json"), "{}")
    assert not list(tmp_path.iterdir())


def test_an_interrupted_fetch_goes_on_with_what_is_missing(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        memory.pipe_file(f"/box/{name}.txt", name.encode())
    fetch, fetched = remote.fetch, list[str]()

    def broken(url: str, there: remote.RemoteObject, *more: Any) -> None:
        if there.path == "/box/c.txt" and len(fetched) < 10:
            raise UserError("The line is cut.")
        fetched.append(there.path)
        fetch(url, there, *more)

    monkeypatch.setattr(remote, "fetch", broken)
    with pytest.raises(UserError, match=r"The line is cut."):
        local_copy("memory://box")
    assert not is_cached("memory://box")
    before = {*fetched}
    fetched.extend([""] * 10)
    local_copy("memory://box")
    assert (
        {*fetched[fetched.index("") :]} - {""}
        == {f"/box/{name}.txt" for name in "abcd"} - before
        >= {"/box/c.txt"}
    )


def test_two_at_once_fetch_a_file_once(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(100_000))
    with web_server(tmp_path) as (address, requests), ThreadPoolExecutor(4) as pool:
        copies = list(pool.map(local_copy, [f"{address}/a.bin"] * 4))
        assert len({*copies}) == 1 and requests.count("GET /a.bin") == 1


def test_what_is_longer_by_the_time_it_is_fetched_is_looked_at_again(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "pause", lambda _: pytest.fail("taken for a broken line"))
    memory.pipe_file("/box/a.txt", b"short")
    listing, looks = remote.listing, list[str]()

    def overtaken(url: str) -> Any:
        there = listing(url)
        looks.append(url)
        if len(looks) == 1:
            memory.pipe_file("/box/a.txt", b"much longer")
        return there

    monkeypatch.setattr(remote, "listing", overtaken)
    assert (
        files_below(local_copy("memory://box", grows=True)) == {"a.txt": b"much longer"} and len(looks) == 2
    )
