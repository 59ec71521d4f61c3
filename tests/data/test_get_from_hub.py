"""Datasets of the Hugging Face Hub, from a server on this machine that answers as the Hub does."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from longshot.base import UserError
from longshot.data import get_dataset, open_dataset, plan_download

pytest.importorskip("huggingface_hub", reason="needs the package huggingface_hub")
COMMIT = "a" * 40


def parquet() -> bytes:
    def png(red: int) -> bytes:
        out = io.BytesIO()
        Image.new("RGB", (4, 4), (red, 0, 0)).save(out, "PNG")
        return out.getvalue()

    features = {"image": {"_type": "Image"}, "label": {"names": ["ant", "bee"], "_type": "ClassLabel"}}
    images = pa.array([{"bytes": png(i), "path": None} for i in range(4)])
    table = pa.table({"image": images, "label": pa.array([0, 1, 0, 1])})
    described = {"huggingface": json.dumps({"info": {"features": features}})}
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(described), out)
    return out.getvalue()


FILES = {"data/train-00000-of-00001.parquet": parquet(), "toys.py": b"raise SystemExit", "toys.pkl": b"x"}


class _Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.requests.append(path)
        if path == "/api/datasets/me/gated":
            self._answer(403, b"{}", **{"X-Error-Code": "GatedRepo"})
        elif path.startswith("/api/datasets/me/toys/tree/"):
            entries = [{"type": "file", "path": n, "size": len(d), "oid": _oid(d)} for n, d in FILES.items()]
            self._answer(200, json.dumps(entries).encode())
        elif path.startswith("/api/datasets/me/toys"):
            siblings = [{"rfilename": n, "size": len(d), "blobId": _oid(d)} for n, d in FILES.items()]
            info = {"id": "me/toys", "sha": COMMIT, "cardData": {"license": "mit"}, "siblings": siblings}
            self._answer(200, json.dumps(info).encode())
        elif path.startswith(f"/datasets/me/toys/resolve/{COMMIT}/"):
            data = FILES[path.removeprefix(f"/datasets/me/toys/resolve/{COMMIT}/")]
            self._answer(200, data, **{"ETag": f'"{_oid(data)}"', "X-Repo-Commit": COMMIT})
        else:
            self._answer(404, b"{}", **{"X-Error-Code": "RepoNotFound"})

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@pytest.fixture
def hub(tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Hub]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    _Hub.requests.clear()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("LONGSHOT_DATA", str(tmp_path / "data"))
    yield _Hub
    server.shutdown()
    thread.join()
    server.server_close()


def test_tables_and_images_are_taken_and_nothing_that_runs(
    hub: type[_Hub], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_download("hub:me/toys")
    assert plan["licence"] == "mit" and [file["name"] for file in plan["files"]] == [next(iter(FILES))]
    assert not (tmp_path / "data").exists()
    dataset = get_dataset("hub:me/toys")
    assert (dataset.name, dataset.class_ids, len(dataset)) == ("me--toys", ("ant", "bee"), 4)
    assert open_dataset("me--toys").fingerprint == dataset.fingerprint
    assert "2 files of hub:me/toys ('toys.py', 'toys.pkl') left out" in capsys.readouterr().err
    assert not any(path.endswith((".py", ".pkl")) for path in hub.requests)
    assert json.loads((tmp_path / "data/me--toys/.longshot-get.json").read_text())["commit"] == COMMIT


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "hub:me/gated",
            "hub:me/gated asks for your consent; give it at https://huggingface.co/datasets/me/gated",
        ),
        ("hub:me/none", "There is no dataset at https://huggingface.co/datasets/me/none, or it is private"),
    ],
)
def test_refusals_of_the_hub(hub: type[_Hub], name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        get_dataset(name)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, fresh_cache: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"run: pip install 'longshot\[hub\]'"):
        get_dataset("hub:me/toys")
