"""No page that a reader is led to is empty, over twenty runs of different kinds, whole, cut short and damaged."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import fsspec
import pytest

import longshot

from .conftest import Client

SHAPE: dict[str, Any] = {"tasks": 10, "way": 3, "shot": 2, "query": 3, "seed": 3}
METHODS = ["protonet", "ridge"]


class Content(HTMLParser):
    """What stands in each section of a page beside its heading."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[dict[str, Any]] = []
        self.tabs: list[str] = []
        self._in: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = dict(attrs)
        if tag not in ("br", "img", "input", "link", "meta", "wbr", "circle", "path", "rect", "polyline"):
            self._in.append(tag)
        if tag == "section":
            self.sections.append({"text": "", "seen": set(), "headings": ""})
        if tag == "a" and "nav" in self._in and (facts.get("href") or "").startswith("/"):
            self.tabs.append(str(facts["href"]))
        if not self.sections or "section" not in self._in:
            return
        look = str(facts.get("class", ""))
        shown = (
            tag in ("img", "canvas", "dd", "td", "details", "circle", "rect", "polyline", "path")
            or "tile" in look.split()
        )
        self.sections[-1]["seen"] |= {tag} if shown else set()

    def handle_endtag(self, tag: str) -> None:
        while tag in self._in and self._in.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.sections and "section" in self._in:
            name = "headings" if {"h2", "h3", "th", "form", "button"} & set(self._in) else "text"
            self.sections[-1][name] += data.strip()


def evaluated(bed: Any, out: Path, **settings: Any) -> None:
    longshot.evaluate(
        bed, out=out, **{"backbones": "pixels", "methods": METHODS, "save_scores": True, **settings}
    )


def sampled(**changes: Any) -> Callable[[Path, Path], None]:
    """A run on a testbed of its own."""

    def make(photos: Path, out: Path) -> None:
        bed = out.parent / f"{out.name}.parquet"
        longshot.sample(photos, **{**SHAPE, **changes}).save(bed)
        evaluated(bed, out)

    return make


def judged(name: str) -> Callable[[Path, Path], None]:
    return sampled(instances=name, judge="pixels")


def flat(photos: Path, out: Path) -> None:
    """Classes without a taxonomy, of a dataset that is not there any more."""
    images = out.parent.parent / "flat"
    shutil.copytree(photos / "round", images)
    sampled()(images, out)


def two_datasets(photos: Path, out: Path) -> None:
    bed = out.parent / "two-datasets.parquet"
    longshot.sample([photos / "round", photos / "square"], **SHAPE).save(bed)
    evaluated(bed, out)


def ladder(photos: Path, out: Path) -> None:
    beds = []
    for name in ("easy", "uniform", "difficult"):
        judge = {} if name == "uniform" else {"judge": "pixels"}
        beds.append(out.parent / f"ladder-{name}.parquet")
        longshot.sample(photos, **SHAPE, instances=name, **judge).save(beds[-1])
    evaluated(beds, out)


def of_one(name: str, **changes: Any) -> Callable[[Path, Path], None]:
    def make(photos: Path, out: Path) -> None:
        bed = out.parent / f"{name}.parquet"
        longshot.sample(photos, **SHAPE).save(bed)
        evaluated(bed, out, **changes)

    return make


def killed(photos: Path, out: Path) -> None:
    """Two testbeds, of which one was not begun, and a last sign of life of long ago."""
    ladder(photos, out)
    parts = sorted(out.glob("part-*.parquet"))
    for part in parts[len(parts) // 2 :]:
        part.unlink()
    sign = {
        "work": "evaluate",
        "state": "running",
        "time": time.time() - 600,
        "done": 3,
        "total": 6,
        "unit": "tasks",
    }
    (out / "heartbeat.json").write_text(json.dumps(sign))


def nothing_yet(photos: Path, out: Path) -> None:
    sampled(seed=9)(photos, out)
    for part in out.glob("part-*.parquet"):
        part.unlink()


def truncated(photos: Path, out: Path) -> None:
    ladder(photos, out)
    part = sorted(out.glob("part-*.parquet"))[0]
    part.write_bytes(part.read_bytes()[:-100])
    bed = sorted((out / "testbeds").glob("*.parquet"))[0]
    bed.write_bytes(bed.read_bytes()[: bed.stat().st_size // 2])


def without_testbed(photos: Path, out: Path) -> None:
    sampled(seed=11)(photos, out)
    (out.parent / f"{out.name}.parquet").unlink()
    shutil.rmtree(out / "testbeds")


def remote(photos: Path, out: Path) -> None:
    """A run at a URL, opened from there."""
    sampled(seed=13)(photos, out)
    fsspec.filesystem("memory").put(f"{out}/", f"/twenty/{out.name}/", recursive=True)
    shutil.rmtree(out)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "plain": sampled(),
    "one-task": sampled(tasks=1),
    "one-series": of_one("one-series", methods="protonet"),
    "two-classes-one-query": sampled(way=2, shot=1, query=1),
    "without-taxonomy": flat,
    "difficult": judged("difficult"),
    "easy": judged("easy"),
    "greedy": judged("greedy"),
    "ladder": ladder,
    "any-way": sampled(shape="any", way=None, shot=None, query=None),
    "meta-dataset": sampled(shape="meta-dataset", way=None, shot=None, query=None),
    "siblings": sampled(classes="siblings"),
    "two-datasets": two_datasets,
    "transductive": of_one("transductive", methods=["tim", "bd-cspn"]),
    "predictions-only": of_one("predictions-only", save_scores=False),
    "by-names": sampled(identity="names"),
    "killed": killed,
    "nothing-yet": nothing_yet,
    "truncated": truncated,
    "without-testbed": without_testbed,
    "remote": remote,
}
QUICK = ("one-task", "one-series", "without-taxonomy", "nothing-yet", "truncated", "remote")


def look(client: Client, path: str) -> Content:
    """A page, once what it waits for is made: it is there, and each of its sections says or shows something."""
    page = client.made(path)
    content = Content()
    content.feed(page)
    assert content.sections and "<title>Not here" not in page, path
    for section in content.sections:
        assert section["seen"] or len(section["text"]) > 20, f"{path}: {section}"
    assert any(section["seen"] for section in content.sections) or re.search(r"\w+ \w+ [^<]*\.", page), path
    return content


@pytest.mark.parametrize(
    "kind", [each if each in QUICK else pytest.param(each, marks=pytest.mark.long) for each in KINDS]
)
def test_no_page_is_empty(kind: str, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "shown" / kind
    out.parent.mkdir()
    KINDS[kind](photos, out)
    sources: list[Any] = [out.parent, *([f"memory://twenty/{kind}"] if kind == "remote" else [])]
    explorer = longshot.serve(sources, port=19500)
    client = Client(explorer)
    try:
        run, shown = client.item("run", kind), []
        waiting = ["/", run]
        beds = [link for link in client.links(run) if re.fullmatch(r"/testbed/[^/?]*", link)]
        waiting += [page for bed in dict.fromkeys(beds) for page in (bed, f"{bed}/task/0")]
        while waiting:
            path = waiting.pop(0)
            if path not in shown:
                shown.append(path)
                waiting += look(client, path).tabs
        assert len(shown) > 4
    finally:
        explorer.close()
