"""What pages show, without a browser."""

from __future__ import annotations

import io
import json
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_plus

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from PIL import Image

import longshot
from longshot.explorer.listing import select
from longshot.explorer.plot_worker import run_sections
from longshot.explorer.run_index import Indexes
from longshot.tasks import Testbed

from .conftest import Client


def texts(page: str, pattern: str) -> list[str]:
    return [unescape(re.sub(r"<[^>]*>", "", text)).strip() for text in re.findall(pattern, page, re.DOTALL)]


def test_home_lists_what_there_is(client: Client) -> None:
    page = client.get("/").text
    names = texts(page, r'<a class="name"[^>]*>(.*?)</a>')
    assert {"first", "easy", "hard"} <= set(names)
    assert names.count("easy") == 1  # the run's own copy is the same testbed
    assert "finished" in texts(page, r'<span class="state[^>]*>(.*?)</span>')
    runs = client.made("/?kind=run")
    assert texts(runs, r'<a class="name"[^>]*>(.*?)</a>') == ["first"]
    assert (
        len(re.findall(r'<a href="/testbed/[^"/]*"><bdi>(?:easy|hard)</bdi>', runs)) == 2
    )  # a line per testbed
    assert "Nothing is called “zebra”" in unescape(client.get("/?q=zebra").text)


def test_means_lead_to_their_tasks(client: Client, explored: Path) -> None:
    run = client.item("run", "first")
    page = client.get(run).text
    summary = longshot.Results(explored / "runs" / "first").summary()
    shown = texts(page, r'<span class="value"><a[^>]*>(.*?)</a>')
    assert sorted(shown) == sorted(f"{100 * row['accuracy']:.1f}" for row in summary)
    url = unescape(re.findall(r'<span class="value"><a href="([^"]*)"', page)[0])
    assert url.startswith(f"{run}/tasks?bed=") and "sort=" in url
    assert "1–24 of 24 tasks" in client.get(url).text


def rows_of(page: str) -> list[list[str]]:
    body = page[page.index('<table class="metrics tasks') :]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)[1:]
    return [texts(row, r"<td[^>]*>(.*?)</td>") for row in rows]


def test_lists_are_sorted_filtered_and_counted(client: Client, explored: Path) -> None:
    run = client.item("run", "first")
    table = longshot.Results(explored / "runs" / "first").select(testbed="easy", method="ridge").table()
    accuracies = dict(zip(table["task"].to_pylist(), table["accuracy"].to_pylist(), strict=True))
    path = f"{run}/tasks?bed=easy&column=task&column=ridge@pixels"
    rows = rows_of(client.get(f"{path}&sort=-ridge@pixels").text)
    expected = sorted(accuracies.items(), key=lambda pair: (-pair[1], pair[0]))
    assert rows == [[str(task), f"{100 * value:.1f}"] for task, value in expected]
    where = quote("ridge@pixels < 0.9 and not task in (0, 1)")
    low = [task for task, value in accuracies.items() if value < 0.9 and task not in (0, 1)]
    assert low
    page = client.get(f"{path}&where={where}&sort=task").text
    assert [row[0] for row in rows_of(page)] == [str(task) for task in sorted(low)]
    assert f"of {len(low)} tasks" in page and "(filtered from 24)" in page


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("nope > 3", "The list of tasks has no column 'nope'"),
        ("way >", "it breaks off"),
        ("accuracy == wrong", "holds numbers, and 'wrong' is none"),
        ("__import__('os')", "must be tests of one column each"),
    ],
)
def test_a_filter_that_has_no_meaning_is_told(client: Client, where: str, sentence: str) -> None:
    answer = client.get(f"{client.item('run', 'first')}/tasks?where={quote(where)}")
    assert answer.status == 200
    notice = " ".join(texts(answer.text, r'<p class="notice">(.*?)</p>'))
    assert sentence in notice and "All tasks are shown." in notice


def test_files_of_a_list_hold_all_of_it(client: Client) -> None:
    path = f"{client.item('run', 'first')}/tasks?bed=easy&where={quote('accuracy < 0.8')}&as="
    answer = client.get(path + "csv")
    assert "attachment" in answer.headers["content-disposition"]
    rows = pyarrow.csv.read_csv(io.BytesIO(answer.body))
    table = pq.read_table(io.BytesIO(client.get(path + "parquet").body))
    assert rows["task"].to_pylist() == table["task"].to_pylist()
    assert 0 < len(table) < 24 and max(table["accuracy"].to_pylist()) < 0.8


def test_a_filtered_list_becomes_a_testbed(client: Client, explored: Path, tmp_path: Path) -> None:
    path = f"{client.item('testbed', 'easy')}/tasks?where={quote('task in (3, 5, 7)')}&as=testbed"
    file = tmp_path / "part.parquet"
    file.write_bytes(client.get(path).body)
    part, source = Testbed.load(file), Testbed.load(explored / "easy.parquet")
    assert [task.query for task in part] == [source[number].query for number in (3, 5, 7)]
    assert part.meta["sampler"]["part_of"] == source.content_hash
    inspection = longshot.inspect(part, verify=True)
    assert inspection.findings == ()


def test_a_task_shows_its_pictures_and_its_mistakes(client: Client, explored: Path) -> None:
    bed = client.item("testbed", "easy")
    page = client.get(f"{bed}/task/3").text
    task = Testbed.load(explored / "easy.parquet")[3]
    keys = texts(page, r'title="([^"]*)" aria-label')
    assert sorted(keys) == sorted([*task.support, *task.query])
    table = longshot.Results(explored / "runs" / "first").select(testbed="easy").table()
    rows = [row for row in table.select(["task", "prediction"]).to_pylist() if row["task"] == 3]
    wrong = sum(int(np.sum(np.array(row["prediction"]) != task.query_label)) for row in rows)
    assert page.count('<i class="wrong">') == wrong > 0
    sprite = unescape(re.search(r"--sprite:url\((?:&#39;|')([^)]*?)(?:&#39;|')\)", page)[1])
    answer = client.get(sprite)
    assert answer.headers["content-type"] == "image/jpeg" and "immutable" in answer.headers["cache-control"]
    image = Image.open(io.BytesIO(answer.body))
    assert image.size == (12 * 96, -(-len(keys) // 12) * 96)
    assert client.get(sprite.replace("sprite-1-", "sprite-1-0")).status == 404


def test_a_sprite_shows_the_images_in_order(client: Client, explored: Path, photos: Path) -> None:
    bed = client.item("testbed", "easy")
    page = client.get(f"{bed}/task/0").text
    sprite = unescape(re.search(r"--sprite:url\((?:&#39;|')([^)]*?)(?:&#39;|')\)", page)[1])
    sheet = np.asarray(Image.open(io.BytesIO(client.get(sprite).body)).convert("RGB"), float)
    places = re.findall(r'style="--x:(\d+);--y:(\d+)" title="([^"]*)"', page)
    for x, y, key in places[:6]:
        tile = sheet[int(y) * 96 : int(y) * 96 + 96, int(x) * 96 : int(x) * 96 + 96]
        original = Image.open(photos / key).convert("RGB").resize((96, 96))
        strangers = [
            Image.open(photos / other).convert("RGB").resize((96, 96)) for *_, other in places if other != key
        ]
        distance = np.abs(tile - np.asarray(original, float)).mean()
        assert distance < min(np.abs(tile - np.asarray(other, float)).mean() for other in strangers)


def test_a_query_has_answers_scores_and_near_support(client: Client, explored: Path) -> None:
    page = client.get(f"{client.item('testbed', 'easy')}/task/3/query/2").text
    assert "protonet" in page and "ridge" in page
    shares = [float(text) for text in re.findall(r"</span> ([\d.]+) %</dd>", page)]
    assert len(shares) == 2 * 4 and abs(sum(shares) - 200) < 1  # of each series they sum to 100
    assert page.count("same class") + page.count("another class") == 8
    large = re.search(r'<img src="([^"]*)"', page)[1]
    assert client.get(large).headers["content-type"] == "image/jpeg"


def test_neighbours_follow_the_list(client: Client) -> None:
    run, bed = client.item("run", "first"), client.item("testbed", "easy")
    listed = rows_of(client.get(f"{run}/tasks?bed=easy&sort=-spread").text)
    order = [row[0] for row in listed]
    page = client.get(f"{bed}/task/{order[4]}?run={run.rsplit('/', 1)[-1]}&sort=-spread").text
    assert f"/task/{order[3]}?" in re.search(r'data-arrowleft="([^"]*)"', page)[1]
    assert f"/task/{order[5]}?" in re.search(r'data-arrowright="([^"]*)"', page)[1]
    assert "5 of 24 in this list" in page


@pytest.mark.parametrize(
    "path",
    [
        "/run/nothing-0000000000",
        "/run/..%2f..%2fetc",
        "/testbed/x",
        "/nope",
        "{bed}/task/999",
        "{bed}/task/3/query/999",
        "{bed}/task/3/nothing/1",
        "{bed}/task/99999999999999999999",
        "{run}/tasks?bed=nothing",
        "{run}/tasks?as=exe",
        "{run}/report/nothing",
        "/static/x/../../../../etc/passwd",
    ],
)
def test_what_is_not_there_is_told_in_a_sentence(client: Client, path: str) -> None:
    filled = path.format(bed=client.item("testbed", "easy"), run=client.item("run", "first"))
    answer = client.get(filled)
    assert answer.status == 404
    assert "Traceback" not in answer.text and "root:" not in answer.text
    assert client.get("/").status == 200


def test_an_unchanged_page_is_not_sent_again(client: Client) -> None:
    path = f"{client.item('run', 'first')}/tasks"
    tag = client.get(path).headers["etag"]
    again = client.get(path, {"If-None-Match": tag})
    assert again.status == 304 and again.body == b""


def test_the_reports_sections_are_the_reports(client: Client, explored: Path, tmp_path: Path) -> None:
    page = client.made(f"{client.item('run', 'first')}/report/results")
    report = longshot.report(explored / "runs" / "first", tmp_path / "report.html", pictures=0)
    written = Path(report).read_text("utf-8")
    start = page.index('<ul class="findings">')
    findings = page[start : page.index("</ul>", start)]
    assert findings in written  # the same template, the same numbers


def test_live_answers_in_json(client: Client) -> None:
    answer = client.get("/live")
    assert json.loads(answer.body)["items"] == []
    assert client.get("/live", {"If-None-Match": answer.headers["etag"]}).status == 304


def test_every_query_stands_with_its_answer_and_share(client: Client, explored: Path) -> None:
    bed, run = client.item("testbed", "hard"), client.item("run", "first").rsplit("-", 1)[-1]
    page = client.get(f"{bed}/task/5?lead={run}:ridge@pixels").text
    task = Testbed.load(explored / "hard.parquet")[5]
    names = [class_id.rsplit("/", 1)[-1] for class_id in task.classes]
    rows = (
        longshot.Results(explored / "runs" / "first")
        .select(testbed="hard", method="ridge")
        .table()
        .to_pylist()
    )
    (predicted,) = [row["prediction"] for row in rows if row["task"] == 5]
    figures = re.findall(
        r'<figure class="asked( wrong)?".*?title="([^"]*)".*?<bdi>(.*?)</bdi>.*?(\d+) %', page, re.DOTALL
    )
    assert len(figures) == len(task.query)
    for framed, key, name, share in figures:
        position = task.query.index(key)
        assert name == names[predicted[position]]
        assert bool(framed) == (predicted[position] != task.query_label[position])
        assert 100 / task.way - 0.6 <= float(share) <= 100  # the highest of four shares


def test_the_classes_of_a_testbed_are_counted(client: Client, explored: Path) -> None:
    bed = client.item("testbed", "easy")
    testbed = Testbed.load(explored / "easy.parquet")
    rows = pq.read_table(io.BytesIO(client.get(f"{bed}/classes?as=parquet").body)).to_pylist()
    for row in rows:
        holds = [task for task in testbed if row["class"] in task.classes]
        assert (row["tasks"], row["support"], row["queries"]) == (len(holds), 2 * len(holds), 3 * len(holds))
    assert sum(row["tasks"] for row in rows) == 4 * 24
    page = client.get(f"{bed}/classes").text
    assert "times in a task" in page  # the taxonomy, beside it
    chosen = client.get(f"{bed}/tasks?class=round/gold").text
    expected = [str(task.index) for task in testbed if "round/gold" in task.classes]
    assert [row[0] for row in rows_of(chosen)] == expected
    middle = client.get(f"{bed}/task/{expected[1]}?class=round/gold").text
    assert f"/task/{expected[2]}?class=" in re.search(r'data-arrowright="([^"]*)"', middle)[1]


def test_any_table_of_a_page_is_a_file(client: Client, explored: Path) -> None:
    run = client.item("run", "first")
    path = next(link for link in client.links(run) if "table=1" in link and "as=csv" in link)
    answer = client.get(path)
    assert "attachment" in answer.headers["content-disposition"]
    rows = pyarrow.csv.read_csv(io.BytesIO(answer.body)).to_pylist()
    for row in longshot.Results(explored / "runs" / "first").summary():
        (line,) = [each for each in rows if each["Method"] == row["method"]]
        assert line[row["testbed"]] == pytest.approx(row["accuracy"])
        assert line[f"{row['testbed']} ±"] == pytest.approx(row["ci95"])
    again = pq.read_table(io.BytesIO(client.get(path.replace("as=csv", "as=parquet")).body))
    assert again.to_pylist() == rows
    for number in ("0", "99", "x", "9" * 50):
        assert client.get(f"{run}?table={number}&as=csv").status == 404
    assert client.get(f"{run}?table=1&as=exe").status == 404
    counted = client.made(f"{run}/report/results")
    assert len(set(re.findall(r"table=(\d+)", counted))) == counted.count("<table")


def test_a_comparison_by_run_is_a_file(client: Client) -> None:
    run = client.item("run", "first").rpartition("/")[2]
    links = client.links(f"/compare?run={run}")
    named = next(link for link in links if link.startswith("/compare?") and "as=csv" in link)
    answer = client.get(f"/compare?run={run}&as=csv")
    assert answer.status == 200
    assert answer.body == client.get(named).body


def test_judges_are_marked_where_they_chose(client: Client) -> None:
    hard = client.get(f"{client.item('testbed', 'hard')}/board").text
    easy = client.get(f"{client.item('testbed', 'easy')}/board").text
    assert hard.count('<span class="mark">judge</span>') == 2 and "judge</span>" not in easy
    assert ">best<" not in hard and ">tie<" not in hard


@pytest.mark.parametrize("bad", ["0", "-1", "x", "999999999999", "٣", "1e3"])
def test_a_page_that_is_not_there_is_the_nearest(client: Client, bad: str) -> None:
    run, bed = client.item("run", "first"), client.item("testbed", "easy")
    number = quote(bad)
    for path in (f"{run}/tasks?page={number}", f"/?page={number}", f"{bed}/task/3?classes={number}"):
        assert client.get(path).status == 200


def test_means_by_dataset_lead_to_their_tasks(photos: Path, tmp_path: Path) -> None:
    """Of a testbed with two datasets: the list behind the mean of one holds its tasks."""
    shape: dict[str, Any] = {"tasks": 20, "way": 3, "shot": 1, "query": 2}
    other = Path(shutil.copytree(photos / "round", tmp_path / "a pair"))
    beds = [longshot.sample(folder, **shape) for folder in (photos, other)]
    longshot.Testbed.concat(beds).save(tmp_path / "here" / "joined.parquet")
    longshot.evaluate(
        tmp_path / "here" / "joined.parquet",
        backbones="pixels",
        methods="protonet",
        out=tmp_path / "here" / "run",
    )
    explorer = longshot.serve(tmp_path / "here", port=18440)
    try:
        client = Client(explorer)
        page = client.made(f"{client.item('run', 'run')}/report/difficulty")
        links = [unescape(link) for link in re.findall(r'href="(/run/[^"]*where=[^"]*)"', page)]
        by_dataset = [link for link in links if "dataset" in link]
        assert len(by_dataset) == 2
        assert all("1–20 of 20 tasks" in client.get(link).text for link in by_dataset)
    finally:
        explorer.close()


def test_means_of_quartiles_lead_to_their_tasks(tmp_path: Path) -> None:
    bed = longshot.sample("toybox", tasks=40, way=5, shot=1, query=1, split="test", classes="semantic")
    longshot.evaluate(bed, backbones="pixels", methods="protonet", out=tmp_path / "run")
    (section,) = [each for each in run_sections(str(tmp_path / "run"), "x") if each["name"] == "difficulty"]
    filters = re.findall(r"where=([^\"&]*)", unescape(section["html"]))
    table = Indexes(tmp_path / "index").open(tmp_path / "run").beds()[0].table
    listed = [set(select(table, unquote_plus(where))[0].tolist()) for where in filters]
    assert len(listed) == 4 and min(map(len, listed)) >= 10
    assert set.union(*listed) == set(range(40))
