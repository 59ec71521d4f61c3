"""Classes, pairs, lists in pictures, the map and the review, against numbers made here and scikit-learn."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote, urlencode

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness

import longshot
from longshot.audit import read_decisions
from longshot.explorer.map_layout import clusters, components, nearest_rows, neighbour_layout
from longshot.explorer.site import breakable
from longshot.explorer.svg_plots import Curve, Dot, Step, dot_plot, ladder
from longshot.tasks import Testbed

from .conftest import Client


@pytest.fixture(scope="module")
def rows(explored: Path) -> list[dict[str, object]]:
    """Predictions of ridge on the easy testbed, a row per task."""
    table = longshot.Results(explored / "runs" / "first").select(testbed="easy", method="ridge").table()
    listed: list[dict[str, object]] = table.select(["task", "accuracy", "prediction"]).to_pylist()
    return listed


@pytest.fixture(scope="module")
def right_by_class(explored: Path, rows: list[dict[str, object]]) -> dict[str, list[int]]:
    testbed = Testbed.load(explored / "easy.parquet")
    counts: dict[str, list[int]] = {}
    for row in rows:
        task = testbed[int(str(row["task"]))]
        for truth, answer in zip(task.query_label, row["prediction"], strict=True):  # type: ignore[call-overload]
            own = counts.setdefault(task.classes[int(truth)], [0, 0])
            own[0] += int(truth == answer)
            own[1] += 1
    return counts


def table_of(client: Client, path: str, number: int = 1) -> list[dict[str, object]]:
    """A table of a page, as its file has it."""
    joint = "&" if "?" in path else "?"
    listed: list[dict[str, object]] = json.loads(client.get(f"{path}{joint}table={number}&as=json").body)
    return listed


def test_classes_stand_with_their_accuracy(client: Client, right_by_class: dict[str, list[int]]) -> None:
    path = f"{client.item('run', 'first')}/classes?bed=easy&series=ridge@pixels"
    listed = {row["class"]: row for row in table_of(client, path)}
    assert listed.keys() == right_by_class.keys()
    for name, (right, times) in right_by_class.items():
        assert listed[name]["accuracy"] == pytest.approx(right / times)
        assert listed[name]["queries"] == times
        assert listed[name]["low"] <= right / times <= listed[name]["high"]
    worst = [row["accuracy"] for row in table_of(client, path)]
    assert worst == sorted(worst)


def test_a_class_has_its_images_from_the_worst(client: Client, right_by_class: dict[str, list[int]]) -> None:
    name = min(right_by_class, key=lambda each: right_by_class[each][0] / right_by_class[each][1])
    page = client.get(f"{client.item('run', 'first')}/class?bed=easy&series=ridge@pixels&class={name}").text
    written = re.findall(r"<bdi>margin ([+−]?\d+)", page)
    margins = [int(text.replace("−", "-")) for text in written]
    counted = [tuple(map(int, pair)) for pair in re.findall(r"<bdi>right (\d+) of (\d+)</bdi>", page)]
    assert margins == sorted(margins) and len(margins) == len(counted) > 1
    assert [sum(column) for column in zip(*counted, strict=True)] == right_by_class[name]


def test_mistaken_queries_stand_beside_supports_of_both_classes(client: Client, explored: Path) -> None:
    run = client.item("run", "first")
    path = next(
        link for link in client.links(f"{run}/classes?bed=easy&series=ridge@pixels") if "predicted=" in link
    )
    page = client.get(path).text
    true, predicted = (re.search(rf"{name}=([^&]*)", path)[1] for name in ("true", "predicted"))  # type: ignore[index]
    assert re.search(r"\d+–\d+ of \d+ queries", page)
    shown = re.findall(r'aria-label="(query|support) of (\w+)', page)
    assert {name for part, name in shown if part == "query"} == {true.rsplit("/", 1)[-1]}
    supports = {name for part, name in shown if part == "support"}
    assert supports == {true.rsplit("/", 1)[-1], predicted.rsplit("/", 1)[-1]}


def test_the_best_series_of_a_run_stands_on_the_first_page(client: Client, explored: Path) -> None:
    client.made("/?kind=run")  # scores are read in the background
    first = sorted(table_of(client, "/?kind=run"), key=lambda row: str(row["Testbed"]))
    assert [row["Testbed"] for row in first] == ["easy", "hard"]
    summary = longshot.Results(explored / "runs" / "first").summary()
    for row in first:
        best = max(each["accuracy"] for each in summary if each["testbed"] == row["Testbed"])
        assert row["Mean accuracy %"] == pytest.approx(best)
    means = {
        row["testbed"]: row["accuracy"]
        for row in summary
        if row["method"] == first[1]["Best method"].split()[0]
    }  # type: ignore[attr-defined]
    assert first[1]["Drop"] == pytest.approx(means["easy"] - means["hard"])


def test_what_is_hidden_is_counted_and_pinned_comes_first(client: Client) -> None:
    beds = {name: client.item("testbed", name).rsplit("-", 1)[-1] for name in ("easy", "hard")}
    shown = client.get("/?kind=testbed", {"Cookie": f"longshot-hide={beds['easy']}"}).text
    assert "1 hidden" in shown and "<bdi>easy</bdi></a>" not in shown and "<bdi>hard</bdi></a>" in shown
    everything = client.get("/?kind=testbed&hidden=1", {"Cookie": f"longshot-hide={beds['easy']}"}).text
    assert "<bdi>easy</bdi></a>" in everything


def test_tasks_are_chosen_by_classes_and_disagreement(client: Client, explored: Path) -> None:
    run = client.item("run", "first")
    testbed = Testbed.load(explored / "easy.parquet")
    pair = ("round/gold", "round/crimson")
    path = f"{run}/tasks?bed=easy&class={pair[0]}&with={pair[1]}&sort=task"
    listed = json.loads(client.get(f"{path}&as=json").body)
    assert [row["task"] for row in listed] == [
        task.index for task in testbed if set(pair) <= set(task.classes)
    ]
    results = longshot.Results(explored / "runs" / "first").select(testbed="easy").table().to_pylist()
    by_task: dict[int, list[list[int]]] = {}
    for row in results:
        by_task.setdefault(row["task"], []).append(row["prediction"])
    for row in listed:
        first, second = by_task[row["task"]]
        assert row["disagreement"] == pytest.approx(np.mean(np.array(first) != np.array(second)))


@pytest.mark.parametrize(("view", "pattern"), [("", r'<td class="tiles">'), ("grid", r'class="task-grid')])
def test_a_task_of_a_list_has_a_picture_per_class(client: Client, view: str, pattern: str) -> None:
    page = client.get(f"{client.item('run', 'first')}/tasks?bed=easy&view={view}").text
    assert re.search(pattern, page)
    assert page.count('class="track"') == 24 and page.count('<b style="left:') == 2 * 24
    assert len(re.findall(r'<a class="tile"[^>]*aria-label="\w+, task', page)) == 4 * 24
    sprite = unescape(re.search(r"--sprite:url\((?:&#39;|')([^)]*?)(?:&#39;|')\)", page)[1])  # type: ignore[index]
    assert client.get(sprite).headers["content-type"] == "image/jpeg"


def test_the_same_queries_have_a_switch_of_supports(client: Client) -> None:
    bed = client.item("testbed", "easy")
    page = client.get(f"{bed}/task/3").text
    switch = re.search(r'<p class="kinds switch">(.*?)</p>', page, re.DOTALL)[1]  # type: ignore[index]
    assert re.findall(r">(\w+) support<", switch) == ["uniform", "difficult"]


def test_names_break_between_their_parts() -> None:
    assert str(breakable("177.Prothonotary_Warbler")) == "<bdi>177.<wbr>Prothonotary_<wbr>Warbler</bdi>"
    assert str(breakable("<b>")) == "<bdi>&lt;b&gt;</bdi>"


def test_marks_of_plots_stand_where_their_numbers_are() -> None:
    text = dot_plot([Dot("half", 0.5, 0.25, 0.75), Dot("all", 1.0, None, None)], "accuracy")
    half, full = (float(x) for x in re.findall(r'<circle cx="([\d.]+)"', text))
    low, high = map(float, re.search(r'class="reach" d="M([\d.]+) \d+H([\d.]+)"', text).groups())  # type: ignore[union-attr]
    assert half == (low + high) / 2 and full - half == pytest.approx(high - low)
    steps = [Step(0, 0.8, None, None, "", "a"), Step(1, 0.4, None, None, "", "b")]
    line = ladder([Curve("net", "red", steps)], ["a", "b"], "x")
    first, second = (float(y) for y in re.findall(r'cy="([\d.]+)"', line))
    assert second > first and line.count("<circle") == 2


def blobs(rows: int = 600, groups: int = 6) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    labels = generator.integers(0, groups, rows)
    return (generator.normal(size=(groups, 30))[labels] * 3 + generator.normal(size=(rows, 30))), labels


def test_components_are_those_of_scikit_learn() -> None:
    points, _ = blobs()
    scaled = points / np.linalg.norm(points, axis=1, keepdims=True)
    expected = PCA(2).fit_transform(scaled)
    own = components(points.astype(np.float32), 2)
    for axis in (0, 1):
        assert abs(np.corrcoef(own[:, axis], expected[:, axis])[0, 1]) > 0.999


def test_the_layout_keeps_neighbours_and_is_always_the_same() -> None:
    points = components(blobs()[0].astype(np.float32))
    places = neighbour_layout(points, lambda share: None)
    assert trustworthiness(points, places, n_neighbors=10) > 0.9
    assert trustworthiness(points, places, n_neighbors=10) > trustworthiness(
        points, points[:, :2], n_neighbors=10
    )
    assert (neighbour_layout(points, lambda share: None) == places).all()


def test_nearest_rows_and_clusters() -> None:
    points, _ = blobs()
    rows, squared = nearest_rows(points, 3, lambda share: None)
    far = ((points[:, None] - points[None]) ** 2).sum(axis=2) + np.diag(np.full(len(points), np.inf))
    assert (rows[:, 0] == far.argmin(axis=1)).all() and squared[:, 0] == pytest.approx(far.min(axis=1))
    own, expected = clusters(points, 6), KMeans(6, n_init=5, random_state=0).fit(points)
    inertia = sum(((points[own == n] - points[own == n].mean(axis=0)) ** 2).sum() for n in range(6))
    assert inertia <= 1.6 * expected.inertia_
    assert (np.diff(np.bincount(own)) <= 0).all()


@pytest.fixture(scope="module")
def reviewed(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    """A dataset with a copy under another label, embedded, in an explorer that takes decisions."""
    folder = tmp_path_factory.mktemp("reviewed") / "mixed"
    shutil.copytree(photos, folder)
    shutil.copy(next((folder / "round" / "gold").glob("*.jpg")), folder / "round" / "crimson" / "moved.jpg")
    longshot.embed(folder, "pixels")
    longshot.sample(folder, tasks=5, way=2, shot=1, query=1, copies="allow").save(
        folder.parent / "bed.parquet"
    )
    explorer = longshot.serve(folder.parent, port=18470, review=True)
    yield Client(explorer), folder
    explorer.close()


def places_of(client: Client, data: str, layout: str) -> np.ndarray:
    """The places of a layout once it is made."""
    path = f"{data}/map.bin?network=pixels&layout={layout}"
    while (answer := client.get(path)).status == 202:
        assert 0 <= json.loads(answer.body)["share"] <= 1
        time.sleep(0.2)
    return np.frombuffer(answer.body, "<u2").reshape(-1, 2)


def test_the_map_has_a_place_and_a_colour_for_every_image(reviewed: tuple[Client, Path]) -> None:
    client, folder = reviewed
    data, dataset = client.dataset(folder), longshot.open_dataset(folder)
    for layout in ("components", "neighbours"):
        assert len(places_of(client, data, layout)) == len(dataset)
    head, _, groups = client.get(f"{data}/map-colour?network=pixels&colour=class").body.partition(b"\n")
    names = json.loads(head)["names"]
    classes = [dataset.class_names[int(label)] for label in dataset.labels]
    assert [names[group] for group in groups] == [name if name in names else "others" for name in classes]
    assert "pixels" in client.get(f"{data}/map").text


def test_what_is_circled_leads_to_images_and_tasks(reviewed: tuple[Client, Path]) -> None:
    client, folder = reviewed
    data, dataset = client.dataset(folder), longshot.open_dataset(folder)
    places = places_of(client, data, "components")
    inside = (places / 65.535 < 500).all(axis=1)
    path = f"{data}/images?map=pixels,components&circle=0.0-500.0-500.500-0.500"
    listed = client.get(f"{path}&as=csv").text.splitlines()[1:]
    keys = dataset.keys.take(np.flatnonzero(inside)).to_pylist()
    assert [line.split(",")[0].strip('"') for line in listed] == keys
    page = client.get(path).text
    testbed = Testbed.load(folder.parent / "bed.parquet")
    using = [task.index for task in testbed if {*task.support, *task.query} & set(keys)]
    assert f"{len(using)} task" in page
    tasks = next(link for link in client.links(path) if link.startswith("/testbed/") and "where=" in link)
    assert [row["task"] for row in json.loads(client.get(f"{tasks}&as=json").body)] == using
    assert client.get(f"{data}/images?map=pixels,components&circle=nonsense").status == 404


def post(
    client: Client, path: str, fields: dict[str, str], headers: dict[str, str] | None = None
) -> tuple[int, str]:
    """Send a form as a browser on a page of the server does, unless headers say otherwise."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    own = {"Origin": f"http://127.0.0.1:{client.port}", "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", path, urlencode(fields), {**own, **(headers or {})})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def form_of(client: Client, path: str) -> dict[str, str]:
    return {
        name: unescape(value)
        for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', client.made(path))
    }


def test_two_people_decide_and_nobody_is_overwritten(reviewed: tuple[Client, Path]) -> None:
    client, folder = reviewed
    dataset, path = longshot.open_dataset(folder), f"{client.dataset(folder)}/review"
    first, second = form_of(client, f"{path}?network=pixels"), form_of(client, f"{path}?network=pixels")
    assert first["key"] == second["key"]
    assert post(client, path, {**first, "verdict": "drop"})[0] == 303
    status, text = post(client, path, {**second, "verdict": "keep"})
    assert status == 200 and "decided by somebody else meanwhile: drop" in text
    assert read_decisions(dataset) == {first["key"]: "drop"}
    seen = form_of(client, f"{path}?network=pixels&row={first['row']}")
    assert seen["seen"] == "drop"
    assert post(client, path, {**seen, "verdict": "undo"})[0] == 303
    assert read_decisions(dataset) == {}


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"csrf": "0" * 32}, {}),
        ({}, {"Origin": "http://evil.example"}),
        ({}, {"Sec-Fetch-Site": "cross-site"}),
        ({"key": "x" * 9000}, {}),
    ],
)
def test_forms_of_others_decide_nothing(
    reviewed: tuple[Client, Path], fields: dict[str, str], headers: dict[str, str]
) -> None:
    client, folder = reviewed
    path = f"{client.dataset(folder)}/review"
    form = {**form_of(client, f"{path}?network=pixels"), "verdict": "drop", **fields}
    assert post(client, path, form, headers)[0] == 403
    assert read_decisions(longshot.open_dataset(folder)) == {}


def test_without_review_nothing_is_written(client: Client, photos: Path) -> None:
    path = f"{client.dataset(photos)}/review"
    assert post(client, path, {"csrf": "", "key": "x", "verdict": "drop"})[0] == 405
    assert "csrf" not in client.made(path)


def test_a_dataset_is_forgotten_by_a_form(
    reviewed: tuple[Client, Path], tmp_path: Path, photos: Path
) -> None:
    client, _ = reviewed
    gone = tmp_path / "forgettable"
    shutil.copytree(photos / "round", gone)
    longshot.open_dataset(gone)
    client.explorer.add(tmp_path)
    path = client.dataset(gone)
    token = re.search(r'name="csrf" value="(\w+)"', client.get("/?kind=dataset").text)[1]  # type: ignore[index]
    assert path in client.get(f"/?kind=dataset&q={quote('forgettable')}").text
    assert post(client, f"{path}/forget", {"csrf": token})[0] == 303
    assert path not in client.get(f"/?kind=dataset&q={quote('forgettable')}").text
    assert gone.is_dir()
