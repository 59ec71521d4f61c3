"""What the serving process holds: views of files instead of copies, few libraries, a bounded number of results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from longshot.explorer.caches import LruCache
from longshot.explorer.result_views import indexed_results
from longshot.explorer.run_index_build import PREFIXES
from longshot.explorer.site import Site

# What computes or draws has processes of its own; each of these is 50 to 400 MB once it is imported.
HEAVY = {"torch", "matplotlib", "cv2", "openvino", "onnxruntime", "transformers", "sklearn", "ray"}

PAGES = """
import json, re, sys, http.client
import longshot
explorer = longshot.serve(sys.argv[1], port=18700)
def get(path):
    connection = http.client.HTTPConnection("127.0.0.1", int(explorer.url.rsplit(":", 1)[1].strip("/")), timeout=120)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode("utf-8", "replace")
first = lambda kind: re.search(rf'href="(/{kind}/[^"/?]*)"', get(f"/?kind={kind}")[1])[1]
run, bed = first("run"), first("testbed")
pages = ["/", run, f"{run}/tasks?sort=-spread", f"{run}/tasks?where=way+%3E+2", f"{run}/classes", f"{run}/confusion"]
pages += [f"{run}/plot", bed, f"{bed}/board", f"{bed}/classes", f"{bed}/task/3", f"{bed}/task/3/query/1"]
pages += [f"/compare?run={run.rsplit('/', 1)[-1]}", f"{run}/report/results"]
print(json.dumps([[page, get(page)[0]] for page in pages]))
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
explorer.close()
"""


def test_results_on_pages_are_views_of_the_index(explored: Path) -> None:
    site = Site([explored])
    run = next(item for item in site.library.items() if item.kind == "run")
    try:
        index = site.index(run)
        # Results without this list may be remembered from a page of another test, and view its index.
        report, _ = indexed_results(site, [run], index.hashes)
        assert len(report.cells) == 4
        for number, bed in enumerate(index.beds()):
            for position, series in enumerate(bed.series):
                cell = report.cells[number, position]
                for name, prefix in PREFIXES.items():
                    column = bed.table[f"{prefix}{series.column}"].to_numpy()
                    assert np.shares_memory(cell.metrics[name], column), name
                flat = bed.answers(position)
                assert flat is not None and cell.predictions is not None
                held = cell.predictions.values.to_numpy(zero_copy_only=True)
                assert np.shares_memory(held, np.asarray(flat))
    finally:
        site.close()


def test_answers_of_some_tasks_are_those_of_the_file(explored: Path) -> None:
    site = Site([explored])
    try:
        bed = site.index(next(item for item in site.library.items() if item.kind == "run")).beds()[0]
        flat, lists = bed.answers(0), bed.answer_lists(0, np.array([5, 2]))
        assert flat is not None and lists is not None
        rows = np.asarray(flat).reshape(bed.table.num_rows, -1)
        assert lists.to_pylist() == rows[[5, 2]].tolist()
    finally:
        site.close()


def test_the_serving_process_imports_nothing_that_computes_or_draws(explored: Path) -> None:
    command = [sys.executable, "-c", PAGES, str(explored)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    answers, modules = map(json.loads, text.splitlines()[-2:])
    assert [page for page, status in answers if status != 200] == []
    assert HEAVY & set(modules) == set()


def test_a_cache_forgets_what_was_used_longest_ago() -> None:
    cache = LruCache(2)
    for key in ("a", "b", "a", "c"):
        cache.get(key, lambda key=key: key)
    assert cache.get("a", lambda: "anew") == "a"
    assert cache.get("b", lambda: "anew") == "anew"
