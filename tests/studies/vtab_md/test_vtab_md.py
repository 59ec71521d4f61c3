"""The study VTAB+MD through the real command, on a few photos: numbers, choices, absence, resumption."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
import yaml
from sklearn.metrics import balanced_accuracy_score

from longshot.base import UserError
from longshot.evaluation import Results
from longshot.statistics import mean_interval
from longshot.studies import get_study, layered
from longshot.studies.engine.recipe import GivenDataset
from longshot.studies.vtab_md.vtab_md_networks import make_networks, make_rows
from longshot.studies.vtab_md.vtab_md_sources import StudySource, VtabSettings, open_sources
from longshot.tasks import Testbed

TINY = {
    "tasks": 6,
    "max_way": 6,
    "max_query": 3,
    "max_support": 20,
    "train": 20,
    "validation": 10,
    "block": 20,
}
NETWORK = {"network": "cnn4(width=4)", "size": 16, "data": ["upstream"], "steps": 3, "validation_tasks": 4}
SETTINGS: dict[str, Any] = {
    **TINY,
    "query": None,
    "networks": {
        "classifier": {"algorithm": "multiclass", **NETWORK},
        "lost": {"algorithm": "multiclass", **NETWORK, "data": ["fungi"]},
    },
    "rows": {
        "ProtoNets": {"backbone": "pixels", "method": "protonet", "group": "one"},
        "Two candidates": {
            "backbone": "pixels",
            "md": "ridge",
            "vtab": ["simpleshot", "ridge"],
            "group": "two",
        },
        "BiT": {"backbone": "classifier", "method": "bit(steps=2)", "tasks": 3, "group": "two"},
        "Lost": {"backbone": "lost", "method": "protonet"},
    },
    "against": "ProtoNets",
    "comparisons": {},
    "published": [4, 7],
    "figures": {
        "figure-1": {"kind": "aggregate"},
        "figure-6": {"kind": "md", "reference": "BiT"},
        "figure-7": {"kind": "vtab"},
        "figure-8": {"kind": "both"},
        "figure-3": {"kind": "grid"},
    },
}


def arguments(photos: Path, folder: Path, settings: dict[str, Any]) -> list[str | Path]:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump({"recipe": "vtab-md", "settings": settings}), encoding="utf-8")
    sources = [f"md:pics={photos}", f"natural:shapes={photos}", f"upstream:up={photos}"]
    return [
        "study",
        "run",
        "vtab-md-small",
        *sources,
        "--config",
        file,
        "--workers",
        "1",
        "-o",
        folder / "out",
    ]


@pytest.fixture(scope="module")
def done(photos: Path, run_cli: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run; what it printed lies beside it."""
    folder = tmp_path_factory.mktemp("vtab-md")
    shown = run_cli(*arguments(photos, folder, SETTINGS))
    (folder / "printed.txt").write_text(shown.stdout, encoding="utf-8")
    return folder / "out"


def records(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def only_record(table: list[dict[str, str]], **facts: str) -> dict[str, str]:
    [record] = [row for row in table if all(row[key] == value for key, value in facts.items())]
    return record


def rows_of(folder: Path, testbed: str, method: str) -> Any:
    table = Results(folder).table()
    mask = pc.and_(pc.equal(table["testbed_name"], testbed), pc.equal(table["method"], method))
    return table.filter(mask)


def test_episodes_are_means_over_tasks(done: Path) -> None:
    table = records(done / "tables" / "sources.csv")
    accuracy = rows_of(done / "run", "pics", "protonet")["accuracy"].to_numpy()
    assert len(accuracy) == 6
    expected = mean_interval(accuracy)
    record = only_record(table, row="ProtoNets", on="pics")
    assert [float(record[key]) for key in ("mean", "low", "high")] == pytest.approx(
        [expected.mean, expected.low, expected.high]
    )


def test_big_episodes_weigh_blocks_by_their_images(done: Path) -> None:
    table = rows_of(done / "run", "shapes", "protonet")
    sizes = [len(block) for block in table["prediction"].to_pylist()]
    assert sizes == [20, 20, 8]  # 48 test images
    accuracy = float((table["accuracy"].to_numpy() * sizes).sum()) / 48
    record = only_record(records(done / "tables" / "sources.csv"), row="ProtoNets", on="shapes")
    assert [float(record[key]) for key in ("accuracy", "n")] == pytest.approx([accuracy, 48])
    # its classes are not asked for equally often: the mean of the classes' shares leads
    labels = [
        label for block in Testbed.load(done / "testbeds" / "shapes.parquet") for label in block.query_label
    ]
    answers = [answer for block in table["prediction"].to_pylist() for answer in block]
    assert float(record["mean"]) == pytest.approx(balanced_accuracy_score(labels, answers))


def test_the_better_candidate_on_validation_images_is_taken(done: Path) -> None:
    chosen = records(done / "tables" / "choices.csv")
    assert {row["row"] for row in chosen} == {"Two candidates"}
    for row in chosen:
        table = rows_of(done / "choices", "shapes-choice", row["candidate"])
        sizes = [len(block) for block in table["prediction"].to_pylist()]
        assert sum(sizes) == 10
        bed = Testbed.load(done / "testbeds" / "shapes-choice.parquet")
        labels = [label for block in bed for label in block.query_label]
        answers = [answer for block in table["prediction"].to_pylist() for answer in block]
        accuracy = balanced_accuracy_score(labels, answers)
        assert float(row["mean_validation_accuracy"]) == pytest.approx(accuracy)
    best = max(chosen, key=lambda row: float(row["mean_validation_accuracy"]))
    assert best["chosen"] == "True"
    assert len(rows_of(done / "run", "shapes", best["candidate"])) == 3


def test_fewer_episodes_are_the_first_of_more(done: Path) -> None:
    first_episodes = rows_of(done / "run", "pics-3-episodes", "bit(steps=2)")
    assert len(first_episodes) == 3 and len(rows_of(done / "run", "pics", "ridge")) == 6
    table = records(done / "tables" / "differences.csv")
    record = only_record(table, row="BiT", minus="ProtoNets", on="pics")
    others_first = rows_of(done / "run", "pics", "protonet")["accuracy"].to_numpy()[:3]
    assert float(record["difference"]) == pytest.approx(
        float((first_episodes["accuracy"].to_numpy() - others_first).mean())
    )


def test_means_do_not_bear_a_benchmarks_name_and_absence_is_said(done: Path) -> None:
    text = (done / "tables" / "aggregate.md").read_text(encoding="utf-8")
    assert "mean of 1 source, none of MD-v2" in text
    assert "mean of 1 natural task, none of VTAB-v2" in text
    assert "None of the 8 of MD-v2's sources is here." in text
    assert "| BiT |" in text and "| Lost |" not in text
    assert "The row 'Lost' is left out: its network is trained on 'fungi'" in text
    assert json.loads((done / "study.json").read_text(encoding="utf-8"))["notes"]


def test_published_numbers_stand_beside_and_are_marked(done: Path) -> None:
    text = (done / "tables" / "sources.md").read_text(encoding="utf-8")
    assert "Published: Dumoulin et al., 2021, table 7" in text and "87.59 ± 1.84" in text


def test_figures_are_drawn_where_there_is_something_to_draw(done: Path) -> None:
    files = {path.name for path in (done / "figures").iterdir()}
    own = {"figure-1", "figure-6", "figure-7", "figure-8"}  # figure-3 needs capacities and resolutions
    assert files == {f"{name}{suffix}" for name in own for suffix in (".png", ".svg")}


def test_a_moved_folder_goes_on(done: Path, photos: Path, run_cli: Any, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "out")
    before = (done / "tables" / "sources.csv").read_bytes()
    moved = run_cli(*arguments(photos, tmp_path, SETTINGS), "--json")
    assert "written" not in {
        step["did"] for step in json.loads(moved.stdout)["steps"] if "train" in step["step"]
    }
    assert (tmp_path / "out" / "tables" / "sources.csv").read_bytes() == before


@pytest.mark.long
def test_the_same_command_does_nothing_and_another_row_extends(
    done: Path, photos: Path, run_cli: Any
) -> None:
    folder = done.parent
    before = (done / "tables" / "sources.csv").read_bytes()
    again = run_cli(*arguments(photos, folder, SETTINGS), "--json")
    steps = {step["step"]: step["did"] for step in json.loads(again.stdout)["steps"]}
    assert set(steps.values()) == {"kept"} and "training classifier" in steps
    assert (done / "tables" / "sources.csv").read_bytes() == before
    more = {
        **SETTINGS,
        "rows": {**SETTINGS["rows"], "Neighbour": {"backbone": "pixels", "method": "nearest-neighbour"}},
    }
    run_cli(*arguments(photos, folder, more))
    assert only_record(records(done / "tables" / "sources.csv"), row="Neighbour", on="shapes")


def test_a_folder_of_other_testbeds_is_refused(done: Path, photos: Path, run_cli: Any) -> None:
    shown = run_cli(*arguments(photos, done.parent, {**SETTINGS, "train": 21}), check=False)
    assert shown.returncode == 2
    assert "holds a study with train = 20, now it is 21" in shown.stderr


def test_a_study_of_one_dataset_refuses_two_and_none(run_cli: Any, tmp_path: Path) -> None:
    for datasets in ([], ["toybox", "toybox"]):
        shown = run_cli("study", "run", "many-way-small", *datasets, "-o", tmp_path / "out", check=False)
        assert shown.returncode == 2
        assert shown.stderr == (
            f"error: The study 'many-way-small' takes one dataset and {len(datasets)} were given.\n"
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rows={}", "rows = {}, but it must be of 1 or more entries"),
        ("rows={A: {method: protonet, bed: 1}}", "has no setting 'rows.A.bed'"),
        ("rows={A: {backbone: pixels}}", "rows.A = {'backbone': 'pixels'}, but it has no method"),
        ("rows={A: {method: protonett}}", "did you mean 'protonet'"),
        ("networks={a: {algorithm: multiclass}}", "lacks the setting 'networks.a.data'; add it"),
        ("networks={a: {algorithm: multiclass, data: [md], stepps: 3}}", "The network 'a' has no 'stepps'"),
        ("sources={flowers: here}", "'flowers' is none of MD-v2's sources"),
        (
            "figures={f: {kind: pie}}",
            "figures.f.kind = 'pie', but it must be 'aggregate', 'md', 'vtab', 'both' or 'grid'",
        ),
        ("published=[3]", "published.0 = 3, but it must be a whole number of 4 or more and up to 9"),
    ],
)
def test_wrong_settings_are_named(change: str, message: str) -> None:

    with pytest.raises(UserError) as caught:
        layered(get_study("vtab-md"), None, [change])
    assert message in str(caught.value)


def named_sources(path: Path, *names: str) -> list[StudySource]:
    return open_sources({name: GivenDataset(name, path) for name in names}, 0)


def changed(changes: list[str]) -> VtabSettings:
    settings = layered(get_study("vtab-md"), None, changes).settings
    assert isinstance(settings, VtabSettings)
    return settings


def test_starts_come_first_and_circles_are_refused(photos: Path) -> None:

    sources = named_sources(photos, "md:pics", "upstream:up")
    first = "a: {algorithm: multiclass, data: [upstream]}"
    chain = f"networks={{b: {{algorithm: protonet, start: a, data: [upstream]}}, {first}}}"
    rows = "rows={R: {backbone: b, method: protonet}}"
    settings = changed([chain, rows])
    networks, possible, notes = make_networks(settings, make_rows(settings), sources)
    assert list(networks) == ["a", "b"] and [row.name for row in possible] == ["R"] and not notes
    circle = chain.replace("{algorithm: multiclass,", "{algorithm: multiclass, start: b,")
    settings = changed([circle, rows])
    with pytest.raises(UserError, match="starts from itself"):
        make_networks(settings, make_rows(settings), sources)


def test_half_an_ensemble_does_not_pass_for_the_whole(photos: Path) -> None:
    """One network per source, and one of the sources has nothing to train on."""

    sources = named_sources(photos, "md:pics", "upstream:up")
    many = "networks={s: {algorithm: multiclass, data: [upstream, md], each: true}}"
    rows = "rows={S: {backbone: s, method: sur}, R: {method: protonet}}"
    settings = changed([many, rows])
    networks, possible, notes = make_networks(settings, make_rows(settings), sources)
    assert not networks and [row.name for row in possible] == ["R"]
    assert notes == [
        "The row 'S' is left out: its network is trained on 'md', and no such source with train classes is here."
    ]
    alone = many.replace("[upstream, md]", "[upstream]").replace("each", "validate: [md], each")
    settings = changed([alone, rows])
    networks, possible, notes = make_networks(settings, make_rows(settings), sources)
    assert list(networks) == ["s-up"] and possible[0].backbone == "s-up"
    assert notes[0].startswith("The network 's-up' is validated on classes of its own data: none of 'md'")


def test_test_classes_never_train(photos: Path) -> None:
    """A source of episodes without train classes of its own is no training data."""

    sources = named_sources(photos, "md:pics")
    change = [
        "networks={a: {algorithm: multiclass, data: [md]}}",
        "rows={R: {backbone: a, method: protonet}}",
    ]
    settings = changed(change)
    with pytest.raises(UserError, match="No row of the study can be had"):
        make_networks(settings, make_rows(settings), sources)
