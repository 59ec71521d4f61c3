"""Model folders by strangers, and photos at URLs: one sentence each, and the rest is answered."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

import longshot
from longshot.base import UserError
from longshot.deploy import Classifier, photo_sources
from longshot.deploy.model_folder import read_files, write_model


def rewrite(model: Path, name: str, content: bytes) -> None:
    """Change a file of a model and its digests with it, as someone would who wants it to be opened."""
    write_model(model, {**read_files(model), name: content})


def change_facts(model: Path, **changes: Any) -> None:
    """Change entries of model.json, a dot in a name leading further in."""
    facts = json.loads((model / "model.json").read_text())
    for name, value in changes.items():
        inside = facts
        *path, last = name.split("__")
        for part in path:
            inside = inside[part]
        inside[last] = value
    rewrite(model, "model.json", json.dumps(facts).encode())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"method": "evil.py:Method", "form": "support"}, "code that no model holds"),
        ({"network__preprocessing": "decode|resize(90000,90000)"}, "sides are whole numbers from 1 to 4096"),
        ({"classes": ["a", "b"]}, "damaged: head.safetensors holds"),
        ({"card": {"photos": "many"}}, "card.photos"),
        ({"certainty": [1.0]}, "certainty"),
    ],
)
def test_facts_that_are_wrong_are_named(copy: Path, changes: dict[str, Any], sentence: str) -> None:
    change_facts(copy, **changes)
    with pytest.raises(UserError, match=sentence):
        Classifier.open(copy)


def test_no_code_of_a_folder_is_run(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as a method nor as a network, whether the model is opened or asked to learn."""
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    monkeypatch.chdir(tmp_path)
    change_facts(copy, method="evil.py:Method")
    with pytest.raises(UserError, match="code that no model holds"):
        Classifier.open(copy).remove("red")
    change_facts(copy, network__name="torch:evil.py:network")
    files = read_files(copy)
    del files["network.onnx"]
    write_model(copy, files)
    with pytest.raises(UserError, match="code that no model holds"):
        Classifier.open(copy)


def test_tensors_and_networks_that_do_not_fit_are_named(copy: Path) -> None:
    tensors = load((copy / "head.safetensors").read_bytes())
    rewrite(copy, "head.safetensors", save({**tensors, "label": tensors["label"] + 10**9}))
    with pytest.raises(UserError, match=r"other classes than those of references.json"):
        Classifier.open(copy)
    rewrite(copy, "head.safetensors", b"\xff" * 80)
    with pytest.raises(UserError, match="is damaged"):
        Classifier.open(copy)
    rewrite(copy, "head.safetensors", save(tensors))
    rewrite(copy, "network.onnx", b"no network")
    with pytest.raises(UserError, match="is damaged"):
        Classifier.open(copy)


def test_a_bomb_of_brackets_is_no_json(copy: Path) -> None:
    rewrite(copy, "references.json", b"[" * 1_000_000)
    with pytest.raises(UserError, match=r"references.json is damaged: it is not JSON|is not JSON"):
        Classifier.open(copy)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read(copy: Path, kind: str) -> None:
    path = copy / "network.onnx"
    path.unlink()
    if kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(UserError, match=r"network.onnx cannot be read"):
        Classifier.open(copy)


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "evil.py", ".."])
def test_a_manifest_names_no_other_files(copy: Path, name: str) -> None:
    write_model(copy, {**read_files(copy)})
    from longshot.base import hash_json, json_text

    files = {**json.loads((copy / "manifest.json").read_text())["files"], name: "0" * 64}
    (copy / "manifest.json").write_text(json_text({"format": 1, "files": files, "seal": hash_json(files)}))
    with pytest.raises(UserError, match="names a file that is none of a model's"):
        Classifier.open(copy)


def test_a_thumbnail_leads_nowhere(copy: Path) -> None:
    listed = json.loads((copy / "references.json").read_text())
    listed["references"][0]["thumbnail"] = "https://example.org/seen.png"
    rewrite(copy, "references.json", json.dumps(listed).encode())
    with pytest.raises(UserError, match="thumbnail"):
        Classifier.open(copy)


# ---- photos at URLs


@pytest.fixture
def server(world: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A web server with one photo, and with everything that may go wrong."""
    monkeypatch.setattr(photo_sources, "_PATIENCE", 1.5)
    monkeypatch.setattr(photo_sources, "_MEGABYTES", 1)
    photo = (world / "photos" / "red" / "3.png").read_bytes()
    ended = threading.Event()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, _, number = self.path.partition("?")
            status = {"/missing.png": 404, "/round.png": 302, "/far.png": 302, "/twice.png": 302}.get(
                name, 200
            )
            self.send_response(status)
            kind = {"/page.png": "text/html; charset=utf-8", "/bare.png": "application/octet-stream"}
            self.send_header("Content-Type", kind.get(name, "image/png"))
            onward = {"/round.png": f"/round.png?{int(number or 0) + 1}", "/far.png": "file:///etc/hostname"}
            if status == 302:
                self.send_header("Location", onward.get(name, "/photo.png"))
            self.end_headers()
            if name == "/slow.png":
                while not ended.wait(0.1):
                    self.wfile.write(b"x")
                    self.wfile.flush()
            elif name == "/large.png":
                self.wfile.write(bytes(3 << 20))
            elif status == 200:
                self.wfile.write(b"no picture" if name == "/broken.png" else photo)

        def log_message(self, *_: Any) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    web.daemon_threads = True
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{web.server_port}"
    ended.set()
    web.shutdown()
    web.server_close()


def test_photos_at_urls_are_answered_and_each_failure_is_a_sentence(world: Path, server: str) -> None:
    reasons = {
        "photo.png": "",
        "bare.png": "",
        "twice.png": "",
        "missing.png": "its server answers 404",
        "page.png": "it is no image but 'text/html'",
        "large.png": "it has more than 1 MB",
        "slow.png": "its server took more than 2 s",
        "round.png": "it redirects more than 5 times",
        "far.png": "it cannot be fetched (InvalidSchema)",
        "broken.png": "it is no image that Pillow knows, whatever its name says",
    }
    nowhere = "http://127.0.0.1:9/photo.png"
    answers = longshot.predict(world / "model", [*(f"{server}/{name}" for name in reasons), nowhere])
    rows = {row["photo"]: row for row in answers.rows()}
    assert {Path(photo).name: row["problem"] for photo, row in list(rows.items())[:-1]} == reasons
    assert rows[nowhere]["problem"] == "it cannot be fetched (ConnectionError)"
    same = longshot.predict(world / "model", world / "photos" / "red" / "3.png")
    assert np.allclose(answers.probabilities[0], same.probabilities[0])


def test_a_path_with_nothing_at_it_is_named_among_others(world: Path) -> None:
    photo = world / "photos" / "red" / "3.png"
    answers = longshot.predict(world / "model", [photo, world / "none.png"])
    assert answers.problems == {1: f"There is nothing at {world / 'none.png'}"}
    with pytest.raises(UserError, match="There is nothing at"):
        longshot.predict(world / "model", world / "none.png")
