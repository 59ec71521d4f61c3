"""The study of transfer difficulty: statistics against SciPy and by hand, tables against their scores."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from longshot.studies.transfer.settings import METHODS
from longshot.studies.transfer.stats import SplitPlace, TransferScores, advantage, leader, steepness
from longshot.studies.transfer.tables import (
    accuracies_table,
    adaptation_table,
    hardest_table,
    slopes_table,
    splits_table,
    tables,
)

TARGETS = (0.04, 0.32, 0.96)


def _scores(
    methods: tuple[str, ...] = METHODS, repeats: int = 2, tasks: int = 30, fall: float = 0.2, seed: int = 0
) -> TransferScores:
    """Accuracies that fall with R, by ``fall`` per unit and method number + 1; finetune stands still."""
    rng = np.random.default_rng(seed)
    places = [SplitPlace("random", None, 0.001, 0.05)]
    places += [SplitPlace(f"R = {target:g}", target, target / 10, 0.3 + target / 2) for target in TARGETS]
    accuracy = {}
    for split in places:
        for number, method in enumerate(methods):
            drop = 0.0 if method == "finetune" else fall * (number + 1) * (split.target or 0.0)
            for shot in (1, 5):
                noise = rng.normal(0, 0.03, (repeats, tasks))
                accuracy[split.name, method, shot] = 0.6 + 0.02 * shot - drop + noise
    return TransferScores(places, methods, (1, 5), accuracy)


def _csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_slope_is_that_of_scipy_over_splits_and_trainings() -> None:
    scores = _scores()
    slope = steepness(scores, "anil", 5)
    x = [target for target in TARGETS for _ in range(2)]
    y = [row.mean() for target in TARGETS for row in scores.accuracy[f"R = {target:g}", "anil", 5]]
    theirs = stats.linregress(x, y)
    reach = stats.t.ppf(0.975, len(x) - 2) * theirs.stderr
    assert slope.fit.slope == pytest.approx(theirs.slope)
    assert (slope.fit.low, slope.fit.high) == pytest.approx((theirs.slope - reach, theirs.slope + reach))
    assert slope.fit.n == 6


def test_the_interval_over_tasks_covers_resampled_tasks() -> None:
    """The standard error over tasks against a bootstrap of the tasks of every split."""
    scores = _scores(tasks=200)
    slope = steepness(scores, "maml", 1)
    rng = np.random.default_rng(1)
    slopes = []
    for _ in range(600):
        means = [
            scores.accuracy[f"R = {target:g}", "maml", 1].mean(0)[rng.integers(0, 200, 200)].mean()
            for target in TARGETS
        ]
        slopes.append(np.polyfit(TARGETS, means, 1)[0])
    assert (slope.high - slope.low) / (2 * 1.96) == pytest.approx(np.std(slopes), rel=0.12)


def test_the_difference_of_slopes_is_the_slope_of_the_difference() -> None:
    scores = _scores()
    own, other = steepness(scores, "protonet", 5), steepness(scores, "maml", 5)
    differs = steepness(scores, "protonet", 5, against="maml")
    assert differs.fit.slope == pytest.approx(own.fit.slope - other.fit.slope)


def test_a_slope_against_the_measured_divergence() -> None:
    scores = _scores()
    assert steepness(scores, "anil", 1, measured=True).fit.slope == pytest.approx(
        10 * steepness(scores, "anil", 1).fit.slope
    )


def test_an_advantage_is_paired_by_task() -> None:
    scores = _scores()
    split = scores.hardest
    interval = advantage(scores, split, "finetune", "multiclass", 5)
    difference = scores.tasks(split.name, "finetune", 5) - scores.tasks(split.name, "multiclass", 5)
    theirs = stats.ttest_1samp(difference, 0).confidence_interval(0.95)
    assert (interval.mean, interval.low, interval.high) == pytest.approx((difference.mean(), *theirs))


def test_the_leader_is_the_highest_of_those_there_are() -> None:
    scores = _scores(("anil", "protonet"))
    assert leader(scores, scores.hardest, ("maml", "finetune"), 1) is None
    assert leader(scores, scores.hardest, ("anil", "protonet"), 1) == "anil"


def test_slopes_table_holds_the_slopes() -> None:
    scores = _scores()
    table = slopes_table(scores)
    rows = [row for row in _csv(table.texts()["slopes.csv"]) if row["source"] == "measured"]
    for row in rows:
        slope = steepness(
            scores, row["method"], int(row["shot"]), against=row["minus"], measured=row["x"] == "measured"
        )
        assert float(row["slope"]) == pytest.approx(slope.fit.slope)
        assert float(row["tasks_high"]) == pytest.approx(slope.high)
    assert len(rows) == 2 * (5 + 4 + 5)  # own slope, minus MAML's, against the measured divergence
    assert "the flattest slope is that of finetune" in table.lines[0]
    assert (
        "falls with R beyond the interval over splits for maml, anil, protonet, multiclass" in table.lines[0]
    )


def test_published_slopes_stand_beside_and_are_marked() -> None:
    rows = _csv(slopes_table(_scores()).texts()["slopes.csv"])
    printed = {
        (row["dataset"], row["method"]): float(row["slope"]) for row in rows if row["source"] == "published"
    }
    assert printed["CIFAR100", "maml"] == -0.1153
    assert printed["EMNIST", "multiclass"] == -0.0323
    assert len(printed) == 16


def test_accuracies_table_marks_the_split_a_method_does_worst_on_where_there_is_one() -> None:
    table = accuracies_table(_scores(fall=0.3), 5)
    sheet = table.sheets[0]
    worst = {
        sheet.heads[column]: row[0].text
        for row in sheet.blocks[0]
        for column, cell in enumerate(row)
        if cell.mark
    }
    assert set(worst.values()) == {"R = 0.96"}
    assert {method for _, method in worst} == {
        "maml",
        "anil",
        "protonet",
        "multiclass",
    }  # finetune does not fall
    assert len(worst) == 8
    assert "random split minus R = 0.96" in table.lines[0]


def test_hardest_table_separates_adapting_from_fixed_embeddings() -> None:
    table = hardest_table(_scores(), 5)
    kinds = {row[0].text: row[1].text for block in table.sheets[0].blocks for row in block}
    assert kinds == {
        "maml": "adapts",
        "finetune": "adapts",
        "anil": "fixed",
        "protonet": "fixed",
        "multiclass": "fixed",
    }
    first = [row[0].text for block in table.sheets[0].blocks for row in block if row[3].mark == "best"]
    assert first == ["finetune"]


@pytest.mark.parametrize(("fall", "answer"), [(0.3, "yes"), (-0.3, "no")])
def test_the_verdict_follows_the_interval(fall: float, answer: str) -> None:
    table = adaptation_table(_scores(("maml", "anil", "protonet", "multiclass"), fall=fall))
    assert table.lines[1].startswith(
        f"5-shot: does adapting the embedding win on R = 0.96? {answer}: maml minus "
    )


def test_a_difference_within_noise_is_not_decided() -> None:
    table = adaptation_table(_scores(("maml", "anil"), fall=0.0, seed=4))
    assert all("not decided by these tasks" in line for line in table.lines)


def test_fixed_pairs_differ_in_adapting_alone() -> None:
    rows = _csv(adaptation_table(_scores()).texts()["adaptation.csv"])
    pairs = {(row["one"], row["other"]) for row in rows if row["kind"] == "pair"}
    assert pairs == {("finetune", "multiclass"), ("maml", "anil")}


def test_one_divergence_has_no_slope() -> None:
    scores = _scores()
    single = TransferScores(scores.splits[:2], scores.methods, scores.shots, scores.accuracy)
    assert slopes_table(single).lines == ["A slope needs at least 2 divergences; the study has 1."]


def test_equal_splits_are_told() -> None:
    scores = _scores()
    places = [*scores.splits[:-1], SplitPlace("R = 0.96", 0.96, 0.1, 0.5, twin="R = 0.32")]
    table = splits_table(TransferScores(places, scores.methods, scores.shots, scores.accuracy))
    assert table.lines == ["R = 0.96 has the same classes in every part as R = 0.32."]


@pytest.mark.parametrize("methods", [("multiclass",), ("maml", "anil"), METHODS])
def test_all_tables_are_written_for_any_choice_of_methods(methods: tuple[str, ...]) -> None:
    for table in tables(_scores(methods, repeats=1), 5):
        texts = table.texts()
        assert set(texts) == {f"{table.stem}.md", f"{table.stem}.tex", f"{table.stem}.csv"}
        for row in _csv(texts[f"{table.stem}.csv"]):
            assert "nan" not in row.values()
            assert None not in row  # no more cells than heads


def test_two_splits_have_a_slope_without_interval() -> None:
    scores = _scores(repeats=1)
    two = TransferScores(scores.splits[:3], scores.methods, scores.shots, scores.accuracy)
    slope = steepness(two, "maml", 1)
    assert math.isnan(slope.fit.low)
    assert "[" in slopes_table(two).sheets[0].blocks[0][0][3].text  # the one over tasks is there


def test_cells_that_hit_the_ceiling_are_left_out_of_slopes() -> None:
    """Of three splits the last was cut: the slope is that of the first two, and of two left-out ones there is none."""
    scores = _scores()
    cut = replace(scores, cut=frozenset({("R = 0.96", "anil", 5)}))
    y = [row.mean() for target in TARGETS[:2] for row in scores.accuracy[f"R = {target:g}", "anil", 5]]
    expected = stats.linregress([0.04, 0.04, 0.32, 0.32], y).slope
    assert steepness(cut, "anil", 5).fit.slope == pytest.approx(expected)
    assert steepness(cut, "anil", 1) == steepness(scores, "anil", 1)  # other cells stay
    assert steepness(cut, "maml", 5, against="anil").fit.n == 4  # a difference needs both
    most = replace(cut, cut=cut.cut | {("R = 0.32", "anil", 5)})
    assert math.isnan(steepness(most, "anil", 5).fit.slope)


def test_cut_cells_are_marked() -> None:
    scores = replace(_scores(), cut=frozenset({("R = 0.96", "anil", 5)}))
    table = accuracies_table(scores, 5)
    marked = [record for record in table.records if record.get("hit_ceiling")]
    assert [(record["split"], record["method"], record["shot"]) for record in marked] == [
        ("R = 0.96", "anil", 5)
    ]
    texts = [cell.text for block in table.sheets[0].blocks for row in block for cell in row]
    assert sum("‡" in text for text in texts) == 1 and "‡" in table.sheets[0].note
    unfinished = replace(scores, cut=frozenset((f"R = {t:g}", m, 5) for t in TARGETS for m in METHODS))
    assert (
        "5-shot: no method had its whole budget on two splits, so there is no slope."
        in slopes_table(unfinished).lines
    )
