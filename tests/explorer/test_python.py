"""The explorer from Python: results and testbeds that show themselves, also those that are held in memory."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import longshot
from longshot.explorer import listen, serving
from longshot.explorer.serving import Explorer

from .conftest import Client


@pytest.fixture
def shown() -> Iterator[None]:
    """What ``show`` opens is closed afterwards."""
    yield
    for explorer in serving._shared:
        explorer.close()
    serving._shared.clear()


def page_of(explorer: Explorer) -> str:
    gc.collect()  # nothing of the page may hang on what the caller dropped
    url = urlsplit(explorer.url)
    answer = Client(explorer).get(url.path + (f"?{url.query}" if url.query else ""))
    assert answer.status == 200
    return answer.text


@pytest.mark.usefixtures("shown")
def test_a_testbed_and_its_results_show_themselves(photos: Path, explored: Path) -> None:
    testbed = longshot.sample(photos, tasks=5, way=3, shot=1, query=2, seed=9)
    task = testbed.show(3)
    page = page_of(task)
    assert all(key in page for key in testbed[3].query)
    assert "There is no task 99" in Client(task).get(urlsplit(testbed.show(99).url).path).text
    results = longshot.evaluate(testbed, backbones="pixels", methods=["protonet"])
    page = page_of(results.show())  # never written by the caller
    assert f"{100 * results.summary()[0]['accuracy']:.1f}" in page
    kept_results = longshot.Results(explored / "runs" / "first").show()
    assert "ridge" in page_of(kept_results)
    assert kept_results.url.split("/")[2] == task.url.split("/")[2]  # one server for all of them
    assert "protonet" in page_of(task)  # and the first page now has the answers of the results
    frame = kept_results._repr_html_()
    assert f'<iframe src="{kept_results.url}"' in frame


def test_results_in_memory_are_served_and_removed(photos: Path) -> None:
    testbed = longshot.sample(photos, tasks=4, way=2, shot=1, query=2)
    every = [longshot.evaluate(testbed, backbones="pixels", methods=[name]) for name in ("protonet", "ridge")]
    explorer = longshot.serve(every, port=19520)
    try:
        folders = [item.path for item in explorer.add(photos) if item.kind == "run"]
        page = page_of(explorer.at("?kind=run"))
        assert page.count('<a class="name"') == 2
        board = Client(explorer).get(f"{Client(explorer).item('testbed', '')}/board").text
        assert "protonet" in board and "ridge" in board  # two runs, one content
    finally:
        explorer.close()
    assert len(folders) == 2 and not any(path.exists() for path in folders)


def test_a_view_is_exported_where_an_event_loop_runs(explored: Path, tmp_path: Path) -> None:
    explorer = longshot.serve(explored, port=19620)

    async def in_a_notebook() -> Path:
        return explorer.export("/", tmp_path / "copy", pages=2)

    try:
        index = asyncio.run(in_a_notebook())
        assert "easy" in index.read_text(encoding="utf-8")
    finally:
        explorer.close()


def test_small_answers_are_sent_at_once() -> None:
    """A socket that does not name its protocol is one whose bodies asyncio lets wait for the headers to arrive."""
    with contextlib.closing(listen("127.0.0.1", 18610)) as listening:
        assert listening.proto == socket.IPPROTO_TCP
