"""Records what a rearrangement of the code must not change, or compares two such records.

    python tools/freeze.py record FOLDER            of the Longshot that this Python imports
    python tools/freeze.py compare BEFORE AFTER     one line per difference; exit 1 if there are any

A record has content hashes of testbeds, runs, splits, releases and study tables, the help of every command, the
description of the competition server's API, the text of forty pages, and the public names with their signatures.
Everything is made by the command line and by ``import longshot``, so that a record knows nothing of the code's rooms.
It takes about three minutes on two cores. Differences that were wanted stand in ``freeze.txt`` beside this file.
"""

from __future__ import annotations

import hashlib
import html
import inspect
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

PAGES = 40
COMMANDS = """
sample toybox --tasks 60 -o easy.parquet
sample toybox --classes siblings --level 1 --split test --tasks 40 -o siblings.parquet
sample toybox --classes semantic --split test --tasks 40 -o semantic.parquet
sample toybox --classes hierarchical --shape meta-dataset --split test --tasks 20 -o hierarchical.parquet
sample toybox --shape meta-dataset --split test --tasks 20 -o varied.parquet
sample toybox --shape any --split test --tasks 20 -o any.parquet
sample toybox --shape like:any.parquet --split test --tasks 20 --seed 3 -o like.parquet
sample toybox --instances difficult --judge pixels --split test --tasks 40 -o hard.parquet
sample toybox --instances easy --judge pixels --split test --tasks 20 -o soft.parquet
sample toybox --instances greedy --judge pixels --split test --tasks 10 -o greedy.parquet
sample toybox --instances shifted --rule cure-or-viewpoint --query 5 --tasks 20 -o shifted.parquet
split toybox --random -o random.json
split toybox --semantic --level 1 -o families.json
split toybox --backbone pixels --divergence 0.64 -o far.json
split toybox --backbone pixels --harder-than random --by 10 -o hard.json
evaluate easy.parquet hard.parquet --backbone pixels --method protonet --method simpleshot --method ridge -o runs/first
evaluate semantic.parquet --backbone pixels --method bd-cspn --method tim --method pt-map -o runs/second
evaluate easy.parquet --backbone pixels --method protonet -o runs/a
evaluate easy.parquet --backbone pixels --method ridge -o runs/b
compare runs/a runs/b
report runs/first -o report.html
report runs/first --format csv -o report.csv
inspect easy.parquet --html testbed.html
explain hard.parquet --backbone pixels --html explain.html
bench pixels -o bench
study run better-testbed-small toybox -o studies/better
study run many-way-small toybox -o studies/many
study run divergence-correlation-small toybox -o studies/divergence
study tables studies/better
study tables studies/many
study tables studies/divergence
release easy.parquet --run runs/first --title Easy -o released
verify released
datasets
datasets show toybox
datasets formats
backbones
methods
taxonomy show toybox
splits compare random.json far.json --dataset toybox --backbone pixels
train protonet toybox --network cnn4 --size 28 --steps 4 --seed 1 -o trained
compete init competition
""".strip().splitlines()
# What differs from run to run: times, days, ports, the folder itself.
_VARYING = (
    (re.compile(r"\b\d+(\.\d+)? ?(µs|ms|s|min|MB|GB|KB|kB|bytes)\b"), "#"),
    (re.compile(r"\b20\d\d-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?)?"), "#"),
    (re.compile(r"127\.0\.0\.1:\d+"), "#"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), "#"),
)
_VOLATILE = {
    "created",
    "creator",
    "seconds",
    "time",
    "machine",
    "versions",
    "revision",
    "longshot",
    "written",
}


def record(folder: Path) -> None:
    """Write the record of the Longshot that this interpreter imports into an empty ``folder``."""
    for name in ("help", "printed", "pages"):
        (folder / name).mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch, "frozen")
        work.mkdir()
        environment = {
            **os.environ,
            "LONGSHOT_CACHE": str(work / "cache"),
            "COLUMNS": "100",
            "OMP_NUM_THREADS": "1",
        }
        for number, line in enumerate(COMMANDS):
            print(f"    longshot {line}", flush=True)
            text = _run(line.split(), work, environment)
            (folder / "printed" / f"{number:02d}-{line.split()[0]}.txt").write_text(f"$ {line}\n{text}")
        _write_json(folder / "hashes.json", _hashes(work))
        _write_json(folder / "names.json", _public_names())
        for words, text in _helps([], work, environment):
            (folder / "help" / f"{'-'.join(words) or 'longshot'}.txt").write_text(text)
        _crawl(["serve", "."], "/", folder / "pages", PAGES, work, environment)
        with _server(["compete", "serve", "competition"], work, environment) as address:
            _write_json(folder / "api.json", json.loads(_get(f"{address}/api/v1/openapi.json")))


def compare(before: Path, after: Path) -> list[str]:
    """One line per difference of two records."""
    files = sorted({path.relative_to(side) for side in (before, after) for path in side.rglob("*.*")})
    differences = []
    for name in files:
        sides = [(side / name).read_text() if (side / name).is_file() else "" for side in (before, after)]
        if sides[0] == sides[1]:
            continue
        lines = [text.splitlines() for text in sides]
        differing = [line for line in lines[1] if line not in lines[0]] or ["a line is gone"]
        differences.append(f"{name}: {len(differing)} lines, such as {differing[0].strip()[:160]!r}")
    return differences


def _run(words: list[str], work: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "longshot", *words], cwd=work, env=environment, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        print(done.stderr, file=sys.stderr)
    return _settled(f"{done.stdout}exit {done.returncode}\n", work)


def _settled(text: str, work: Path) -> str:
    """``text`` without what differs from run to run."""
    text = text.replace(str(work), "…")
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return re.sub(r"[ ─━]{2,}", "  ", text)


def _hashes(work: Path) -> dict[str, str]:
    """File → digest of what must stay equal in it."""
    import pyarrow.parquet as pq

    digests = {}
    for path in sorted(work.rglob("*")):
        name = str(path.relative_to(work))
        if name.startswith(("cache", "competition")) or not path.is_file():
            continue
        if path.suffix == ".parquet":
            metadata = pq.read_metadata(path).metadata or {}
            facts = json.loads(metadata.get(b"longshot", b"{}"))
            digests[name] = facts.get("content_hash") or _table_digest(pq.read_table(path))
        elif path.suffix in (".json", ".csv") or path.name == "weights.safetensors":
            digests[name] = _digest(_without_volatile(path))
    return digests


def _table_digest(table: Any) -> str:
    columns = [name for name in sorted(table.column_names) if "second" not in name]
    return _digest(json.dumps(table.select(columns).to_pylist(), sort_keys=True, default=str).encode())


def _without_volatile(path: Path) -> bytes:
    if path.suffix != ".json":
        return path.read_bytes()

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if not any(word in k for word in _VOLATILE)}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return json.dumps(strip(json.loads(path.read_text())), sort_keys=True).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _public_names() -> dict[str, str]:
    """Public name → its signature, or its type."""
    import longshot

    names = {}
    for name in sorted(longshot.__all__):
        public = getattr(longshot, name)
        names[name] = str(inspect.signature(public)) if callable(public) else type(public).__name__
    return names


def _helps(words: list[str], work: Path, environment: dict[str, str]) -> list[tuple[list[str], str]]:
    """(command, help) of a command and of all below it."""
    text = _run([*words, "--help"], work, environment)
    helps = [(words, text)]
    if "\nCommands:\n" in text:
        for name in re.findall(r"^  ([a-z][a-z-]*) ", text.split("\nCommands:\n")[1], re.MULTILINE):
            helps += _helps([*words, name], work, environment)
    return helps


class _server:
    """A serving command on loopback; its address, until the block ends."""

    def __init__(self, words: list[str], work: Path, environment: dict[str, str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "longshot", *words, "--port", str(port)],
            cwd=work, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> str:
        for _ in range(300):
            try:
                _get(f"{self.address}/")
                return self.address
            except OSError:
                time.sleep(0.2)
        raise TimeoutError(f"nothing answers at {self.address}")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


def _get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=120) as answer:
        return (
            str(answer.read().decode("utf-8", "replace"))
            if "image" not in answer.headers["content-type"]
            else ""
        )


def _crawl(
    words: list[str], start: str, out: Path, count: int, work: Path, environment: dict[str, str]
) -> None:
    """Write the text of ``count`` pages, breadth first; five addresses of one shape at most, so every kind comes."""
    with _server(words, work, environment) as address:
        queue, seen, shapes = [start], {start}, {}
        written = 0
        while queue and written < count:
            path = queue.pop(0)
            shape = re.sub(r"[^/]*[0-9.~][^/]*", "*", path.partition("?")[0])
            shapes[shape] = shapes.get(shape, 0) + 1
            if shapes[shape] > 5:
                continue
            try:
                page = _get(address + path)
            except (urllib.error.HTTPError, OSError) as error:
                page = str(error)
            if "<html" not in page:
                continue
            (out / f"{written:02d}.txt").write_text(
                f"{_settled(path, work)}\n{_settled(_text(page), work)}\n"
            )
            written += 1
            for link in re.findall(r'href="([^"#]+)', page):
                target = urllib.parse.urlsplit(urllib.parse.urljoin(path, html.unescape(link)))
                following = target.path + (f"?{target.query}" if target.query else "")
                if not target.scheme and not target.netloc and following not in seen:
                    seen.add(following)
                    queue.append(following)


def _text(page: str) -> str:
    page = re.sub(r"(?s)<(script|style|svg).*?</\1>", " ", page)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    if sys.argv[1:2] == ["record"] and len(sys.argv) == 3:
        record(Path(sys.argv[2]))
        return 0
    if sys.argv[1:2] == ["compare"] and len(sys.argv) == 4:
        differences = compare(Path(sys.argv[2]), Path(sys.argv[3]))
        print("\n".join(differences) or "the same")
        return int(bool(differences))
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
