"""Getting published datasets, from servers on this machine that drop, lie and send elsewhere."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from PIL import Image

from conftest import RunCli
from longshot.base import Progress, UserError
from longshot.data import VTAB_TASKS, get_dataset, list_downloads, open_dataset, plan_download
from longshot.data.formats import make_format
from longshot.data.get import transfer as fetching
from longshot.data.get.sources import RemoteFile, all_sources
from longshot.data.get.transfer import fetch


class Faulty(ThreadingHTTPServer):
    """Serves ``files`` by name, with ranges, and misbehaves once per fault that ``faults`` has for a name."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[Any]] = {}
        self.encoding = ""
        self.asked: list[tuple[str, str, str]] = []  # method, path, range

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class _Handler(BaseHTTPRequestHandler):
    server: Faulty
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        name = self.path.strip("/")
        sent = self.headers.get("Range", "")
        self.server.asked.append((self.command, name, sent))
        waiting = self.server.faults.get(name, []) if self.command == "GET" else []
        fault = waiting.pop(0) if waiting else None
        if isinstance(fault, int):
            return self._answer(fault, b"no")
        if isinstance(fault, str) and fault.startswith("to "):
            return self._answer(302, b"", Location=fault[3:])
        if fault == "page":
            return self._answer(200, b"<html>log in</html>", **{"Content-Type": "text/html"})
        data = self.server.files.get(name)
        if data is None:
            return self._answer(404, b"no")
        tag = f'"{hashlib.md5(data).hexdigest()}"'
        start, status, headers = 0, 200, {"ETag": tag}
        if self.server.encoding:
            headers["Content-Encoding"] = self.server.encoding
        if sent and fault != "whole" and self.headers.get("If-Range", tag) == tag:
            start = int(sent.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                return self._answer(416, b"", **{"Content-Range": f"bytes */{len(data)}"})
            status, headers["Content-Range"] = 206, f"bytes {start}-{len(data) - 1}/{len(data)}"
        body = data[start:]
        if fault == "drop":  # announces everything, sends half and hangs up
            self._answer(status, body[: len(body) // 2], length=len(body), **headers)
            self.close_connection = True
            return None
        if isinstance(fault, tuple):  # ("flip", place): one bit arrives otherwise
            body = bytes(byte ^ (number == fault[1]) for number, byte in enumerate(body))
        return self._answer(status, body[::-1] if fault == "wrong" else body, **headers)

    def _answer(self, status: int, body: bytes, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(fetching, "pause", lambda seconds: None)
    faulty = Faulty()
    thread = Thread(target=faulty.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield faulty
    faulty.shutdown()
    thread.join()
    faulty.server_close()


@pytest.fixture
def publish(
    tmp_path: Path, fresh_cache: Path, server: Faulty, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """``publish(name="birds", files=[…])`` makes it a source; LONGSHOT_SOURCES names the file."""
    monkeypatch.setenv("LONGSHOT_DATA", str(tmp_path / "data"))

    def write(*sources: dict[str, Any]) -> None:
        file = tmp_path / "sources.json"
        file.write_text(json.dumps(sources))
        monkeypatch.setenv("LONGSHOT_SOURCES", str(file))

    return write


def png(colour: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (6, 5), (colour, 2, 3)).save(out, "PNG")
    return out.getvalue()


MEMBERS = {f"birds/{kind}/{i}.png": png(i) for kind in ("crow", "wren") for i in range(3)}


def zipped(members: dict[str, bytes] = MEMBERS) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(members: dict[str, bytes] = MEMBERS, mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def remote(server: Faulty, name: str, data: bytes, *mirrors: str, **more: Any) -> dict[str, Any]:
    """The entry of a file that the server has, checked unless ``sha256=None``."""
    server.files[name] = data
    entry = {
        "name": name,
        "urls": [server.url(name), *mirrors],
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "unpack": name.endswith((".zip", ".tar.gz")),
        **more,
    }
    return {key: value for key, value in entry.items() if value is not None}


def birds(server: Faulty, *mirrors: str, **more: Any) -> dict[str, Any]:
    file = remote(server, "birds.zip", zipped(), *mirrors, **more)
    return {"name": "birds", "title": "Birds", "path": "birds", "classes": 2, "files": [file]}


# ---- from a name to a dataset ---------------------------------------------------------------------------


def test_a_dataset_is_got_registered_and_recorded(
    server: Faulty, publish: Callable[..., None], tmp_path: Path, run_cli: RunCli
) -> None:
    publish(birds(server))
    done = run_cli("datasets", "get", "birds")
    assert done.stdout == f"'birds' is {tmp_path}/data/birds/birds: 2 classes, 6 images.\n"
    dataset = open_dataset("birds")
    assert dataset.class_ids == ("crow", "wren") and dataset.image(1).getpixel((0, 0)) == (1, 2, 3)
    (entry,) = json.loads((tmp_path / "data/birds/.longshot-get.json").read_text())["files"]
    assert entry["url"] == server.url("birds.zip")
    assert entry["sha256"] == hashlib.sha256(server.files["birds.zip"]).hexdigest()
    assert [path.name for path in (tmp_path / "data/birds").rglob("*.zip")] == []
    before = len(server.asked)
    get_dataset("birds")
    assert len(server.asked) == before  # what is there is not asked for again


def test_archives_inside_archives_and_several_files(
    server: Faulty, publish: Callable[..., None], tmp_path: Path
) -> None:
    outer = zipped({"outer/inner.tar.gz": tarred(), "outer/notes.txt": b"x"})
    more = zipped({"outer/birds/owl/1.png": png(9)})
    files = [remote(server, "outer.zip", outer), remote(server, "more.zip", more)]
    publish(
        {
            "name": "birds",
            "path": "outer/birds",
            "inner": ["outer/inner.tar.gz"],
            "classes": 3,
            "files": files,
        }
    )
    dataset = get_dataset("birds", to=tmp_path / "here", keep_archives=True)
    assert dataset.class_ids == ("crow", "owl", "wren")
    assert (tmp_path / "here/birds/.downloads/outer.zip").read_bytes() == outer


def test_a_folder_around_everything_is_entered(server: Faulty, publish: Callable[..., None]) -> None:
    stl = {f"top/stl10_binary/{name}": data for name, data in _stl().items()}
    publish({"name": "stl", "reader": "stl10", "files": [remote(server, "stl.tar.gz", tarred(stl))]})
    assert get_dataset("stl").class_ids == ("cat", "dog")


def _stl() -> dict[str, bytes]:
    return {"train_X.bin": bytes(2 * 27648), "train_y.bin": b"\1\2", "class_names.txt": b"cat\ndog\n"}


def test_another_number_of_classes_is_told(
    server: Faulty, publish: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    publish({**birds(server), "classes": 200})
    get_dataset("birds")
    assert "'birds' has 2 classes where 200 are published" in capsys.readouterr().err


def test_what_cannot_be_opened_is_kept(server: Faulty, publish: Callable[..., None], tmp_path: Path) -> None:
    publish({**birds(server), "path": "brids"})
    with pytest.raises(
        UserError, match=r"was got, but .*brids is not in it: it is packed otherwise than known"
    ):
        get_dataset("birds")
    publish({**birds(server), "reader": "coco"})
    with pytest.raises(UserError, match=r"was got and lies in .*, but it could not be opened: .*annotations"):
        get_dataset("birds")
    assert (tmp_path / "data/birds/birds/crow/0.png").is_file()


# ---- the transfer ----------------------------------------------------------------------------------------


def test_dropped_connections_are_gone_on_from(server: Faulty, publish: Callable[..., None]) -> None:
    publish(birds(server))
    server.faults["birds.zip"] = ["drop", 503, "drop"]
    assert len(get_dataset("birds")) == 6
    ranges = [sent for method, _, sent in server.asked if method == "GET"]
    half = len(zipped()) // 2
    assert ranges[0] == "" and ranges[1] == ranges[2] == f"bytes={half}-"
    assert int(ranges[3].removeprefix("bytes=").removesuffix("-")) > half


def test_a_later_command_goes_on(server: Faulty, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40
    file = RemoteFile.model_validate_json(json.dumps(remote(server, "a.bin", data)))
    server.faults["a.bin"] = ["drop", *[503] * 5]
    with pytest.raises(UserError, match="answers 503, 5 times without a new byte; do the same again later"):
        fetch(file, tmp_path, Progress("get", None, "MB"))
    assert (tmp_path / "a.bin.part").stat().st_size == len(data) // 2
    fetched = fetch(file, tmp_path, Progress("get", None, "MB"))
    assert fetched.path.read_bytes() == data and server.asked[-1][2] == f"bytes={len(data) // 2}-"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bin"]


def test_without_a_checksum_another_file_is_not_spliced(server: Faulty, tmp_path: Path) -> None:
    file = RemoteFile(name="a.bin", urls=(server.url("a.bin"),))
    server.files["a.bin"] = b"old" * 1000
    server.faults["a.bin"] = ["drop", *[503] * 5]
    with pytest.raises(UserError, match="answers 503"):
        fetch(file, tmp_path, Progress("get", None, "MB"))
    server.files["a.bin"] = b"NEW" * 1000
    assert fetch(file, tmp_path, Progress("get", None, "MB")).path.read_bytes() == b"NEW" * 1000


def test_a_part_of_another_file_is_thrown_away(server: Faulty, tmp_path: Path) -> None:
    file = RemoteFile.model_validate_json(json.dumps(remote(server, "a.bin", b"right" * 100)))
    (tmp_path / "a.bin.part").write_bytes(b"wrong" * 50)
    assert fetch(file, tmp_path, Progress("get", None, "MB")).path.read_bytes() == b"right" * 100


def test_wrong_bytes_are_refused_and_a_mirror_is_asked(
    server: Faulty, publish: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(birds(server))
    server.faults["birds.zip"] = ["wrong", "wrong"]  # the same bytes twice: another file
    with pytest.raises(
        UserError, match=r"127.0.0.1 sent other bytes than the published sha256:\w{64}; do the same"
    ):
        get_dataset("birds")
    assert not (tmp_path / "data/birds/birds").exists()
    server.files["copy/birds.zip"] = zipped()
    publish(birds(server, server.url("copy/birds.zip")))
    server.faults["birds.zip"] = [404]
    get_dataset("birds")
    assert "answers 404 (it is not there); the next address of birds.zip is asked" in capsys.readouterr().err


def test_a_damaged_transfer_is_tried_again_and_what_stays_damaged_is_told(
    server: Faulty, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = RemoteFile.model_validate_json(json.dumps(remote(server, "a.bin", b"right" * 100)))
    server.faults["a.bin"] = [
        ("flip", 3),
        "drop",
        ("flip", 7),
    ]  # the second arrival has a break and a wrong bit
    assert fetch(file, tmp_path, Progress("get", None, "MB")).path.read_bytes() == b"right" * 100
    assert capsys.readouterr().err.count("a.bin arrived damaged from 127.0.0.1; it is asked for again") == 2
    assert [sent for _, _, sent in server.asked] == ["", "", "bytes=250-", ""]
    (tmp_path / "a.bin").unlink()
    server.faults["a.bin"] = [("flip", byte) for byte in range(9)]
    with pytest.raises(
        UserError, match=r"127.0.0.1 sent other bytes than .*, 3 times and each time others; do"
    ):
        fetch(file, tmp_path, Progress("get", None, "MB"))
    assert len(server.asked) == 7


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("to file:///etc/passwd", r"leads elsewhere than to the web \(.*file:///etc/passwd"),
        ("to ftp://127.0.0.1/x", "leads elsewhere than to the web"),
        ("page", "sent a web page where the file should be"),
        (403, r"answers 403 \(it is forbidden\)"),
    ],
)
def test_answers_that_are_refused(server: Faulty, tmp_path: Path, fault: str, words: str) -> None:
    file = RemoteFile.model_validate_json(json.dumps(remote(server, "a.bin", b"x" * 99)))
    server.faults["a.bin"] = [fault]
    with pytest.raises(UserError, match=words):
        fetch(file, tmp_path, Progress("get", None, "MB"))
    assert not (tmp_path / "a.bin").exists()


def test_an_address_of_this_machine_is_refused(tmp_path: Path) -> None:
    file = RemoteFile(name="a.bin", urls=("file:///etc/passwd",))
    with pytest.raises(UserError, match="leads to file:///etc/passwd, and only http and https are followed"):
        fetch(file, tmp_path, Progress("get", None, "MB"))


def test_a_packed_file_is_kept_as_it_is(server: Faulty, tmp_path: Path) -> None:
    """Many servers call a .tgz a tar that they packed on its way; clients then unpack it."""
    file = RemoteFile.model_validate_json(json.dumps(remote(server, "a.tar.gz", tarred())))
    server.encoding = "x-gzip"
    assert fetch(file, tmp_path, Progress("get", None, "MB")).path.read_bytes() == server.files["a.tar.gz"]
    other = RemoteFile.model_validate_json(json.dumps(remote(server, "a.bin", b"x" * 99)))
    with pytest.raises(UserError, match="packs the file on its way, although it was asked not to"):
        fetch(other, tmp_path, Progress("get", None, "MB"))


def test_another_size_is_refused_before_it_is_downloaded(server: Faulty, tmp_path: Path) -> None:
    file = RemoteFile.model_validate_json(json.dumps(remote(server, "a.bin", b"x" * 99, bytes=1000)))
    with pytest.raises(UserError, match="announces 99 bytes where the file has 1,000"):
        fetch(file, tmp_path, Progress("get", None, "MB"))


def test_no_checksum_is_said_loudly(
    server: Faulty, publish: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    publish(birds(server, sha256=None))
    get_dataset("birds")
    assert "note: NO CHECKSUM IS PUBLISHED for birds.zip" in capsys.readouterr().err


# ---- the disk --------------------------------------------------------------------------------------------


def test_sizes_are_asked_before_anything_is_written(
    server: Faulty, publish: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(birds(server, bytes=None))  # unknown here: the server is asked
    monkeypatch.setattr(fetching, "RESERVE", 1 << 60)
    with pytest.raises(
        UserError, match=r"'birds' needs .* kB in .*/data/birds, and .* are free .*another disk with to"
    ):
        get_dataset("birds")
    assert [method for method, *_ in server.asked] == ["HEAD"]
    assert not (tmp_path / "data/birds/.downloads").exists()


def test_a_disk_that_becomes_full_keeps_what_has_arrived(
    server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RemoteFile.model_validate_json(json.dumps(remote(server, "a.bin", b"x" * 3000)))

    class Full:
        def __init__(self, path: Path) -> None:
            self.file = path.open("ab")

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> None:
            self.file.write(data[:1000])
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetching, "_appended", Full)
    with pytest.raises(
        UserError, match=r"The disk is full after 1.0 kB of a.bin; they are kept; free some space"
    ):
        fetch(file, tmp_path, Progress("get", None, "MB"))
    monkeypatch.undo()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert fetch(file, tmp_path, Progress("get", None, "MB")).path.read_bytes() == b"x" * 3000
    assert server.asked[-1][2] == "bytes=1000-"


@pytest.mark.parametrize("name", ["../escape.png", "/escape.png", "birds/../../escape.png"])
def test_archives_that_reach_outside_are_refused(
    server: Faulty, publish: Callable[..., None], tmp_path: Path, name: str
) -> None:
    for number, data in enumerate((zipped({**MEMBERS, name: b"x"}), tarred({**MEMBERS, name: b"x"}))):
        file = remote(server, f"b{number}.{'tar.gz' if number else 'zip'}", data)
        publish({"name": f"bad{number}", "path": "birds", "files": [file]})
        with pytest.raises(UserError, match=r"cannot be taken: the path '.*escape.png' in it is not allowed"):
            get_dataset(f"bad{number}")
        assert not list(tmp_path.rglob("escape.png")) and not list(tmp_path.rglob("crow"))


# ---- what there is ---------------------------------------------------------------------------------------


def test_every_source_has_a_reader_and_web_addresses() -> None:
    sources = [source for source in all_sources().values() if source.files]
    assert len(sources) >= 60
    for source in sources:
        if source.reader is not None:
            make_format(source.reader)
        assert source.licence or "not known" in {
            row["licence"] for row in list_downloads() if row["name"] == source.name
        }
        for file in source.files:
            assert all(url.startswith(("http://", "https://")) for url in file.urls)
            assert file.sha256 is None or len(file.sha256) == 64
            assert file.md5 is None or len(file.md5) == 32


def test_what_a_person_must_fetch_is_opened_by_a_reader_that_there_is() -> None:
    hands = [source.by_hand for source in all_sources().values() if source.by_hand]
    assert len(hands) >= 40 and all(hand.where.startswith("http") for hand in hands)
    forms = [make_format(hand.reader) for hand in hands if hand.reader]
    assert {form.settings["task"] for form in forms if form.name == "vtab"} <= set(VTAB_TASKS)


def test_the_list_and_a_dry_run_ask_nobody(
    server: Faulty, publish: Callable[..., None], tmp_path: Path, run_cli: RunCli
) -> None:
    publish(birds(server, sha256=None))
    listed = run_cli("datasets", "get", "--list").stdout
    assert "omniglot" in listed and "https://objectnet.dev/download.html" in listed and "not known" in listed
    planned = run_cli("datasets", "get", "birds", "--dry-run").stdout
    assert "NO CHECKSUM IS PUBLISHED" in planned and "nothing was written" in planned
    assert plan_download("birds")["folder"] == str(tmp_path / "data" / "birds")
    assert server.asked == [] and not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["omniglotte"], "There is no source 'omniglotte' to get a dataset from; did you mean 'omniglot'?"),
        (
            ["xyz"],
            "There is no source 'xyz' to get a dataset from; 'longshot datasets get --list' lists them all.",
        ),
        (
            [],
            "Getting a dataset needs its name; give a NAME of those that 'longshot datasets get --list' shows.",
        ),
        (
            ["ObjectNet"],
            "'objectnet' (ObjectNet test set) must be fetched by hand from https://objectnet.dev/",
        ),
        (["beans", "--to", ""], "The folder to download to is empty text; give --to a folder."),
        (["hub:x"], "'hub:x' is no dataset of the Hub; write hub:OWNER/NAME or hub:OWNER/NAME@REVISION."),
    ],
)
def test_what_cannot_be_got(arguments: list[str], words: str, run_cli: RunCli) -> None:
    done = run_cli("datasets", "get", *arguments, check=False)
    assert done.returncode == 2 and words in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "../x"}, "cannot be the name of a dataset"),
        ({"path": "../x"}, "it must be a path below the dataset's folder"),
        ({"files": []}, "needs either files or by_hand"),
        ({"fils": []}, "has no setting 'fils'; did you mean 'files'?"),
    ],
)
def test_sources_of_ones_own_are_checked(
    server: Faulty, publish: Callable[..., None], change: dict[str, Any], words: str
) -> None:
    publish({**birds(server), **change})
    with pytest.raises(UserError, match=words.replace("?", r"\?")):
        list_downloads()
