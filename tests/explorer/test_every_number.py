"""Every number and mark of report, explorer, card and terminal against the Parquet parts of ten kinds of runs.

What is expected is computed here with pyarrow, NumPy and SciPy alone, and shares nothing with the tables.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

import longshot
from class_halves import half_over_classes
from longshot.evaluation import write_predictions
from longshot.explorer.serving import Explorer

from .conftest import Client

SHAPE: dict[str, Any] = {"tasks": 9, "way": 4, "shot": 2, "query": 4}
METHODS = ["protonet", "ridge", "tim"]
KINDS = (
    "uniform",
    "judged",
    "datasets",
    "any-way",
    "single",
    "backbones",
    "leaked",
    "alone",
    "released",
    "seeds",
)
JUDGED = {"judged": {"pixels"}, "backbones": {"pixels"}}  # backbones that chose the images of a run's testbed
LEAKED = {"leaked": {"net"}, "backbones": {"net"}}


class Expected(NamedTuple):
    """A series on a testbed, in per cent; ``mark`` as pages word it."""

    mean: float
    half: float | None
    over_classes: float | None  # half the interval for other classes, where it is a fifth wider or narrower
    mark: str
    unranked: bool  # the highest of its setting, and no test was made
    balanced: float
    tasks: int


@pytest.fixture(scope="module")
def world(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten runs of different kinds, and a release of one."""
    base = tmp_path_factory.mktemp("numbers")
    net = base / "net"
    train: dict[str, Any] = {"network": "cnn4(width=4)", "size": 16, "steps": 2, "out": net}
    longshot.train("protonet(query=2, shot=2, way=2)", photos, **train)
    beds = {
        "uniform": longshot.sample(photos, **SHAPE, seed=1),
        "judged": longshot.sample(photos, **SHAPE, seed=2, instances="difficult", judge="pixels"),
        "datasets": longshot.sample([photos / "round", photos / "square"], **{**SHAPE, "way": 3}, seed=3),
        "any-way": longshot.sample(photos, tasks=8, shape="any", query=3, seed=4),
        "single": longshot.sample(photos, **{**SHAPE, "tasks": 1}, seed=5),
    }
    networks = {"pixels": "pixels", "net": str(net)}
    plans: dict[str, tuple[str, Any, list[str]]] = {
        **{name: (name, "pixels", METHODS) for name in beds},
        "backbones": ("judged", networks, METHODS[:2]),
        "leaked": ("uniform", {"net": str(net)}, METHODS[:2]),
        "alone": ("uniform", "pixels", METHODS[:1]),
        "released": ("uniform", "pixels", METHODS[:2]),
        "seeds": ("uniform", "pixels", METHODS[:1]),
    }
    for kind, (bed, backbones, methods) in plans.items():
        seeds = (0, 1) if kind == "seeds" else (0,)
        for seed in seeds:
            longshot.evaluate(
                beds[bed], backbones=backbones, methods=methods, out=base / "runs" / kind, seed=seed
            )
    beds["uniform"].save(base / "uniform.parquet")
    longshot.release(
        {"plain": beds["uniform"]}, title="Plain", runs=[base / "runs" / "released"], out=base / "card"
    )
    return base


@pytest.fixture(scope="module")
def explorer(world: Path) -> Iterator[Client]:
    served: Explorer = longshot.serve(world, port=18431)
    yield Client(served)
    served.close()


def flips(difference: Any) -> float:
    """Count all patterns of signs: the share with a sum at least as far from 0."""
    signs = np.array(list(product((-1, 1), repeat=len(difference))))
    return float((np.abs(signs @ difference) >= abs(difference.sum()) - 1e-12).mean())


def recomputed(run: Path) -> dict[tuple[str, str, int], Expected]:
    """(backbone, method, seed) → what every page must show, from the parts alone; a run here has one testbed."""
    record = json.loads((run / "run.json").read_text("utf-8"))
    rows: dict[tuple[str, str, int], dict[int, dict[str, Any]]] = {}
    for cell in record["cells"]:
        key = (cell["backbone"], cell["method"], cell["seed"])
        for unit in cell["units"]:
            for row in pq.read_table(run / f"part-{unit}.parquet").to_pylist():
                rows.setdefault(key, {})[row["task"]] = row
    values = {key: np.array([own[task]["accuracy"] for task in sorted(own)]) for key, own in rows.items()}
    settings = {key: next(iter(own.values()))["setting"] for key, own in rows.items()}
    judges = {key for key in rows if key[0] in JUDGED.get(run.name, ())}
    marks = dict.fromkeys(rows, "") | dict.fromkeys(judges, "judge")
    tests: dict[frozenset[Any], float] = {}
    for a, b in combinations(rows, 2):
        if len(values[a]) > 1:
            tests[frozenset((a, b))] = flips(values[b] - values[a])
    order = sorted(tests, key=lambda pair: tests[pair])
    largest = 0.0
    for rank, pair in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * tests[pair]))
        tests[pair] = largest
    unranked = set()
    for setting in set(settings.values()):
        members = [key for key in rows if settings[key] == setting and key not in judges]
        if not members:
            continue
        best = max(members, key=lambda key: round(float(values[key].mean()), 12))
        if len(members) < 2 or not tests:
            unranked.add(best)
            continue
        tied = [key for key in members if key == best or tests[frozenset((key, best))] >= 0.05]
        marks |= dict.fromkeys(tied, "tie" if len(tied) > 1 else "best")
    expected = {}
    classes, datasets = classes_of(run, record)
    for key, own in values.items():
        half = stats.sem(own) * stats.t.ppf(0.975, len(own) - 1) if len(own) > 1 else None
        balanced = 100 * float(np.mean([row["balanced_accuracy"] for row in rows[key].values()]))
        scaled = None if half is None else 100 * float(half)
        wider = None if half is None else 100 * half_over_classes(own, classes, datasets)
        if scaled is None or wider is None or abs(wider - scaled) <= 0.2 * scaled:
            wider = None
        expected[key] = Expected(
            100 * float(own.mean()), scaled, wider, marks[key], key in unranked, balanced, len(own)
        )
    return expected


def classes_of(run: Path, record: dict[str, Any]) -> tuple[list[list[int]], list[int]]:
    """Return numbers of the classes and of the dataset of each task, from the run's copy of its testbed."""
    (content_hash,) = record["testbeds"]
    rows = pq.read_table(next(run.rglob(f"*{content_hash[:8]}*.parquet"))).to_pylist()
    names = sorted({(row["dataset"], name) for row in rows for name in row["classes"]})
    datasets = sorted({row["dataset"] for row in rows})
    numbers = [[names.index((row["dataset"], name)) for name in row["classes"]] for row in rows]
    return numbers, [datasets.index(row["dataset"]) for row in rows]


class Tables(HTMLParser):
    """The tables of a page as rows of texts, with the class of every cell."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[list[list[tuple[str, str]]]] = []
        self._open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables:
            self.tables[-1][-1].append((dict(attrs).get("class") or "", ""))
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._open:
            look, text = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = (look, f"{text} {data}")


def check(text: str, expected: Expected, leaked: bool, digits: int, where: str) -> None:
    """Compare a cell: mean, half its interval, mark, leak and the reason for no mark."""
    words = " ".join(text.split())
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", words)]
    near = 0.51 * 10**-digits
    assert numbers[0] == pytest.approx(expected.mean, abs=near), (where, words, expected)
    if expected.half is None:
        assert "±" not in words, (where, words)
    else:
        assert numbers[1] == pytest.approx(expected.half, abs=near), (where, words, expected)
    wider = re.search(r"(?<=\(± )\d+\.\d+(?=\))|(?<=± )\d+\.\d+(?= over classes)", words)
    shown = None if wider is None else float(wider[0])
    assert shown == (
        None if expected.over_classes is None else pytest.approx(expected.over_classes, abs=near)
    ), (
        where,
        words,
        expected,
    )
    assert ("‡" in words) == leaked, (where, words)
    named = re.findall(r"\b(best|tie|judge)\b", words)
    symbols = [
        name for mark, name in (("**", "bold"), (" *", "best"), ("=", "tie"), ("†", "judge")) if mark in words
    ]
    marked = named or (
        ["tie"] if "tie" in symbols else ["best"] if {"bold", "best"} & {*symbols} else symbols
    )
    assert (marked or [""])[0] == expected.mark, (where, words, expected)
    assert any(sign in words for sign in ("°", "alone", "not tested")) == expected.unranked, (where, words)


def series_of(row: list[str], expected: dict[tuple[str, str, int], Expected]) -> tuple[str, str, int]:
    """Find the series that a row is about by its words."""
    text = f" {' '.join(' '.join(row).split())} ".replace("(", " ").replace(")", " ")
    hits = [
        key
        for key in expected
        if f" {key[0]} " in text and f" {key[1]} " in text and (key[2] == 0 or f"seed {key[2]}" in text)
    ]
    hits = [key for key in hits if f"seed {key[2]}" in text] or hits
    assert len(hits) == 1, (row, hits)
    return hits[0]


def check_page(page: str, run: str, expected: dict[tuple[str, str, int], Expected], where: str) -> None:
    """Compare the first table of a page that has a column of means, row by row."""
    table = next(
        table for table in Tables(page).tables if table and len(table) > 1 and "Method" in table[0][0][1]
    )
    assert len(table) - 1 == len(expected), where
    for row in table[1:]:
        key = series_of([text for _, text in row[:3]], expected)
        cell = next((look, text) for look, text in row if "num" in look.split())
        check(cell[1], expected[key], key[0] in LEAKED.get(run, ()), 1, where)


def check_terminal(lines: list[str], run: str, expected: dict[tuple[str, str, int], Expected]) -> None:
    """Compare the rows of the terminal's table; what is equal in all of them stands in the line above."""
    head = next(number for number, line in enumerate(lines) if "Accuracy %" in line)
    same = " ".join(lines[:head]).replace(" · ", " ")
    last_column = lines[head].index("Accuracy %") + len("Accuracy %")
    assert len(lines) - head - 1 == len(expected)
    for line in lines[head + 1 :]:
        before, cell = re.match(r"(.*?)(\d+\.\d+ ± .*|\d+\.\d+.*)", line).groups()
        words = cell[: last_column - len(before)] if last_column > len(before) else cell
        key = series_of([same, before], expected)
        check(words, expected[key], key[0] in LEAKED.get(run, ()), 2, "terminal")


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_is_that_of_the_parts(kind: str, world: Path, explorer: Client, tmp_path: Path) -> None:
    run = world / "runs" / kind
    expected = recomputed(run)
    leaked = LEAKED.get(kind, set())
    assert ({"judge"} if kind in JUDGED else set()) <= {each.mark for each in expected.values()}

    page = Path(longshot.report(run, tmp_path / "report.html", pictures=0)).read_text("utf-8")
    check_page(page, kind, expected, "report")
    details = next(
        table for table in Tables(page).tables if "Testbed" in table[0][0][1] and "Backbone" in table[0][1][1]
    )
    heads = [" ".join(text.split()) for _, text in details[0]]
    for row in details[1:]:
        cells = dict(zip(heads, (text for _, text in row), strict=True))
        own = expected[key := series_of([cells["Method"], cells["Backbone"]], expected)]
        check(cells["Accuracy %"], own, key[0] in leaked, 2, "all metrics")
        if "Balanced %" in cells:
            assert float(cells["Balanced %"].split()[0]) == pytest.approx(own.balanced, abs=0.0051)
        else:  # told apart from accuracy only where it differs
            assert own.balanced == pytest.approx(own.mean)
        assert int(cells["Tasks"]) == own.tasks

    check_page(explorer.get(explorer.item("run", kind)).text, kind, expected, "explorer")
    section = explorer.made(f"{explorer.item('run', kind)}/report/results")
    check_page(section, kind, expected, "explorer's report")

    lines = Path(longshot.report(run, tmp_path / "report.txt")).read_text("utf-8").splitlines()
    rows = lines[: lines.index("")]
    assert max(map(len, rows)) <= 80
    check_terminal(rows, kind, expected)
    markdown = Path(longshot.report(run, tmp_path / "report.md")).read_text("utf-8").splitlines()
    for line in (line for line in markdown[2:] if line.startswith("| ")):
        cells_of = [part.strip() for part in line.strip("| ").split(" | ")]
        key = series_of(cells_of[:3], expected)
        check(cells_of[3], expected[key], key[0] in leaked, 1, "markdown")
    for record in json.loads(Path(longshot.report(run, tmp_path / "report.json")).read_text("utf-8")):
        seed = int(record["note"].removeprefix("seed ") or 0) if record["note"] else 0
        own = expected[record["backbone"], record["method"], seed]
        assert 100 * record["mean"] == pytest.approx(own.mean)
        half = None if record["low"] is None else 50 * (record["high"] - record["low"])
        assert half == (None if own.half is None else pytest.approx(own.half))
        if own.over_classes is not None:
            wider = 50 * (record["class_high"] - record["class_low"])
            assert wider == pytest.approx(own.over_classes, rel=0.005)
        assert (record["mark"].replace("tied", "tie"), bool(record["unranked"])) == (own.mark, own.unranked)


def test_the_card_and_the_board(world: Path, explorer: Client) -> None:
    expected = recomputed(world / "runs" / "released")
    card = (world / "card" / "README.md").read_text("utf-8")
    rows = [line for line in card.splitlines() if line.startswith("| pixels |")]
    assert len(rows) == len(expected)
    for line in rows:
        cells = [part.strip() for part in line.strip("| ").split(" | ")]
        check(cells[3], expected[series_of(cells[:3], expected)], False, 2, "card")
    board = explorer.get(f"{explorer.item('testbed', 'uniform')}/board").text
    (table,) = (table for table in Tables(board).tables if table)
    shown = {" ".join(text.split()) for row in table[1:] for look, text in row if "num" in look.split()}
    for kind in ("uniform", "leaked"):
        for own in recomputed(world / "runs" / kind).values():
            assert any(f"{own.mean:.1f} ± {own.half:.1f}" in text for text in shown), (own, shown)


def test_predictions_from_elsewhere(world: Path, tmp_path: Path, run_cli: Any) -> None:
    """Of answers that other code gave: the first class always."""
    tasks = pq.read_table(world / "uniform.parquet").to_pylist()
    answers = [[0] * len(task["query"]) for task in tasks]
    testbed = longshot.Testbed.load(world / "uniform.parquet")
    write_predictions(tmp_path / "zeros.parquet", testbed, answers, name="zeros")
    accuracy = np.array([np.mean(np.equal(task["query_label"], 0)) for task in tasks])
    (line,) = run_cli("score", tmp_path / "zeros.parquet", world / "uniform.parquet").stdout.splitlines()[1:2]
    assert f"{100 * accuracy.mean():.2f} ± {100 * stats.sem(accuracy) * stats.t.ppf(0.975, 8):.2f}" in line


def test_files_of_tables_have_what_pages_show(world: Path, explorer: Client) -> None:
    """CSV, Parquet and JSON of the explorer's table hold the means in full, and are the same."""
    for kind in ("uniform", "judged"):
        expected = recomputed(world / "runs" / kind)
        address = f"{explorer.item('run', kind)}?table=1&as="
        records = json.loads(explorer.get(f"{address}json").body)
        assert pq.read_table(io.BytesIO(explorer.get(f"{address}parquet").body)).to_pylist() == records
        head = explorer.get(f"{address}csv").text.splitlines()[0]
        assert [name.strip('"') for name in head.split(",")] == list(records[0])
        for record in records:
            own = expected[record["Backbone"], record["Method"], 0]
            number = next(name for name in record if f"{name} ±" in record)
            assert 100 * record[number] == pytest.approx(own.mean)
            assert 100 * record[f"{number} ±"] == pytest.approx(own.half)


def test_a_studys_page(photos: Path, tmp_path: Path) -> None:
    """The page, the Markdown and the CSV of a study's table have the means of its parts, each in its row."""
    settings = {
        "ways": [2, 3],
        "shots": [1],
        "tasks": 5,
        "query": 2,
        "methods": METHODS[:2],
        "backbone": "pixels",
    }
    study = longshot.run_study(
        "many-way-small", photos, out=tmp_path / "study", settings=settings, workers=1
    ).path
    own: dict[str, dict[str, list[float]]] = {}
    for path in study.rglob("part-*.parquet"):
        for line in pq.read_table(path).to_pylist():
            own.setdefault(line["method"], {}).setdefault(line["testbed"], []).append(line["accuracy"])
    expected = {}
    for method, beds in own.items():
        means = [
            (np.mean(each), stats.sem(each) * stats.t.ppf(0.975, len(each) - 1)) for each in beds.values()
        ]
        expected[method] = sorted(f"{100 * mean:.2f} ± {100 * half:.2f}" for mean, half in means)
    assert sorted(map(len, expected.values())) == [2, 2]

    text = (study / "report.html").read_text("utf-8")
    tables = [[[text.strip() for _, text in row] for row in table] for table in Tables(text).tables]
    (table,) = (table for table in tables if len(table) == 4 and "1-shot top-1" in table[1])
    assert [text for text in table[0] if text] == ["2-way", "3-way"]  # the groups of columns
    estimate = re.compile(r"\d+\.\d\d ± \d+\.\d\d")
    page = {row[0]: estimate.findall(" ".join(" ".join(row).split())) for row in table[2:]}
    assert {method: sorted(texts) for method, texts in page.items()} == expected
    printed = (study / "tables" / "many-way.md").read_text("utf-8").partition("**Published")[0]
    rows = {line.split("|")[1].strip(): line for line in printed.splitlines() if line.startswith("| ")}
    assert {method: sorted(estimate.findall(rows[method])) for method in expected} == expected
    with (study / "tables" / "many-way.csv").open(encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    for method, beds in own.items():
        means = sorted(float(record["mean"]) for record in records if record["method"] == method)
        assert means == pytest.approx(sorted(map(np.mean, beds.values())))


@pytest.mark.long
def test_a_studys_run(photos: Path, tmp_path: Path) -> None:
    longshot.run_study("many-way-small", photos, out=tmp_path / "study")
    run = next(path.parent for path in tmp_path.rglob("run.json"))
    for record in json.loads(Path(longshot.report(run, tmp_path / "report.json")).read_text("utf-8")):
        parts = [pq.read_table(path).to_pylist() for path in run.glob("part-*.parquet")]
        key = ("testbed", "backbone", "method")
        names = (record["testbed_hash"], record["backbone"], record["method"])
        own = [row["accuracy"] for part in parts for row in part if tuple(row[name] for name in key) == names]
        assert record["mean"] == pytest.approx(np.mean(own)) and record["n"] == len(own)
