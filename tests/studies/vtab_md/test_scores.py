"""Aggregates of VTAB+MD: what they are a mean of, their intervals, marks and paired differences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from longshot.data import Dataset, open_dataset
from longshot.studies.vtab_md.vtab_md_figures import of_scores
from longshot.studies.vtab_md.vtab_md_networks import ApproachRow
from longshot.studies.vtab_md.vtab_md_scores import CONSTANT, VtabScores, floor_notes
from longshot.studies.vtab_md.vtab_md_sources import MD, VTAB, StudySource
from longshot.studies.vtab_md.vtab_md_tables import aggregate_table, sources_table


@pytest.fixture(scope="module")
def data(photos: Path) -> Dataset:
    return open_dataset(photos)


def row(name: str) -> ApproachRow:
    return ApproachRow(name, "pixels", "protonet", ("protonet",), 5, "", None, None)


def scores(data: Dataset, names: list[str], rows: int = 2, *, own: tuple[str, ...] = ()) -> VtabScores:
    """Random accuracies of rows A, B … on sources by name; ``own`` are sources of episodes of one's own."""
    rng = np.random.default_rng(1)
    sources = [StudySource(n, "md", data, True) for n in names if n in MD]
    sources += [StudySource(n, VTAB[n].group, data, True) for n in names if n in VTAB]
    sources += [StudySource(n, "md", data, False) for n in own]
    labels = "AB"[:rows]
    values = {
        (label, source.name): rng.integers(0, 2, 40).astype(float) if source.role != "md" else rng.random(30)
        for label in labels
        for source in sources
    }
    return VtabScores([row(label) for label in labels], sources, values)


def test_a_whole_benchmark_bears_its_name(data: Dataset) -> None:
    parts = {part.key: part for part in scores(data, [*MD, *VTAB]).parts()}
    assert [part.title for part in parts.values()] == [
        "MD-v2",
        "VTAB (all)",
        "VTAB (natural)",
        "VTAB (specialized)",
        "VTAB (structured)",
    ]
    assert [len(part.sources) for part in parts.values()] == [8, 18, 6, 4, 8]


def test_a_part_of_it_does_not(data: Dataset) -> None:
    titles = {part.key: part.title for part in scores(data, ["dtd", "fungi", "pets"], own=("mine",)).parts()}
    assert titles == {
        "md": "mean of 2 of 8 sources of MD-v2 and 1 of your own",
        "all": "mean of 1 of 18 tasks of VTAB-v2",
        "natural": "mean of 1 of 6 natural tasks of VTAB-v2",
    }
    with_own = {part.key: part.title for part in scores(data, list(MD), own=("mine",)).parts()}
    assert with_own["md"] == "mean of 8 of 8 sources of MD-v2 and 1 of your own"


def test_sources_count_once_and_their_intervals_add_up(data: Dataset) -> None:
    planted = scores(data, list(MD))
    [part] = planted.parts()
    aggregate = planted.aggregate("A", part)
    means = [planted.values["A", name].mean() for name in MD]
    halves = [stats.sem(planted.values["A", name]) * stats.t.ppf(0.975, 29) for name in MD]
    assert aggregate is not None and aggregate.mean == pytest.approx(np.mean(means))
    assert aggregate.half == pytest.approx(np.sqrt(np.sum(np.square(halves))) / 8)


def test_a_row_without_a_source_has_no_mean(data: Dataset) -> None:
    planted = scores(data, list(MD))
    fewer = VtabScores(
        planted.rows, planted.sources, {k: v for k, v in planted.values.items() if k != ("A", "dtd")}
    )
    [part] = fewer.parts()
    assert fewer.aggregate("A", part) is None and fewer.aggregate("B", part) is not None
    text = aggregate_table([], fewer, []).texts()["aggregate.md"]
    assert "| A | – | – |" in text


def test_big_episodes_have_wilsons_interval(data: Dataset) -> None:
    planted = scores(data, ["pets"])
    interval = planted.interval("A", "pets")
    hits = int(planted.values["A", "pets"].sum())
    theirs = stats.binomtest(hits, 40).proportion_ci(method="wilson")
    assert interval is not None and (interval.mean, interval.n) == (hits / 40, 40)
    assert (interval.low, interval.high) == pytest.approx((theirs.low, theirs.high))


def test_differences_are_paired_on_the_first_episodes(data: Dataset) -> None:
    planted = scores(data, ["dtd"])
    short = {**planted.values, ("B", "dtd"): planted.values["B", "dtd"][:12]}
    difference = VtabScores(planted.rows, planted.sources, short).difference("A", "B", "dtd")
    paired = stats.ttest_rel(short["A", "dtd"][:12], short["B", "dtd"]).confidence_interval()
    assert difference is not None and difference.n == 12
    assert (difference.low, difference.high) == pytest.approx((paired.low, paired.high))


def test_the_first_place_is_shared_where_the_difference_may_be_zero(data: Dataset) -> None:
    planted = scores(data, ["dtd"])
    base = planted.values["A", "dtd"]
    apart = VtabScores(
        planted.rows, planted.sources, {("A", "dtd"): base, ("B", "dtd"): base - 0.1 - 0.01 * (base > 0.5)}
    )
    assert apart.marks("dtd") == {"A": "best"}
    noise = np.random.default_rng(0).normal(0, 0.2, 30)
    tied = VtabScores(
        planted.rows, planted.sources, {("A", "dtd"): base, ("B", "dtd"): base + noise - noise.mean() - 0.001}
    )
    assert tied.marks("dtd") == {}  # both share it: nothing is marked


def test_first_places_are_within_a_setting_and_what_rows_were_trained_on(data: Dataset) -> None:
    """A is far above B everywhere, but they are of one kind on episodes only."""
    low, high = np.linspace(0, 0.5, 40), np.linspace(0.4, 1, 40)
    sources = [StudySource("dtd", "md", data, True), StudySource("pets", "natural", data, True)]
    values = {(name, s.name): v for name, v in (("A", high), ("B", low)) for s in sources}
    kinds = {("A", "md"): "inductive", ("B", "md"): "inductive"}
    kinds |= {("A", "big"): "transductive", ("B", "big"): "inductive"}
    planted = VtabScores([row("A"), row("B")], sources, values, kinds)
    assert planted.marks("dtd") == {"A": "best"} and planted.marks("pets") == {}
    trained = [row("A"), replace(row("B"), group="with the sources' classes")]
    assert VtabScores(trained, sources, values, kinds).marks("dtd") == {}


def test_absent_sources_stand_in_the_table(data: Dataset) -> None:
    text = sources_table([], scores(data, ["dtd", "pets"])).texts()["sources.md"]
    assert "| Omniglot | absent | absent |" in text and "| KITTI-dist | absent | absent |" in text
    assert "7 of the 8 of MD-v2's sources are absent" in text.replace("\\", "")


def test_charts_have_the_numbers(data: Dataset) -> None:
    planted = scores(data, ["dtd", "pets"])
    chart = of_scores(planted)
    assert chart.values["A", "dtd"][0] == pytest.approx(100 * planted.values["A", "dtd"].mean())


def test_an_interval_over_classes_stands_beside_where_it_differs(data: Dataset) -> None:
    planted = scores(data, ["dtd", "pets"])
    interval = planted.interval("A", "dtd")
    assert interval is not None and interval.half is not None
    halves = {("A", "dtd"): 2 * interval.half, ("B", "dtd"): 1.0 * interval.half}
    wider = VtabScores(planted.rows, planted.sources, planted.values, {}, halves)
    table = sources_table([4], wider)
    text = table.texts()["sources.md"]
    assert text.count("(± ") == 1 and f"(± {200 * interval.half:.2f})" in text.replace("\\", "")
    record = next(record for record in table.records if (record["row"], record["on"]) == ("B", "dtd"))
    assert record["half_over_classes"] == halves["B", "dtd"]


def test_rows_that_are_not_above_the_best_constant_are_named_and_have_no_place(data: Dataset) -> None:
    """B answers the most frequent class throughout, right in 27 of 40: above 1/8, and nothing was learned."""
    constant = np.repeat([1.0, 0.0], [27, 13])
    values = {("A", "pets"): np.ones(40), ("B", "pets"): constant, (CONSTANT, "pets"): constant}
    [source] = scores(data, ["pets"]).sources
    planted = VtabScores([row("A"), row("B")], [source], values)
    [note] = floor_notes(planted)
    assert note.startswith("Not above the best constant answer on Pets (67.50 %): B;")
    assert planted.learned("A", "pets") and not planted.learned("B", "pets") and planted.marks("pets") == {}
