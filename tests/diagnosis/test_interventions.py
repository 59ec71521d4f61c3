"""Worlds planted in feature space: a cause that moves supports comes back, one that does not is never claimed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from longshot.base import Bools, Floats, Ints, Ragged, TaskPlan, TaskRows
from longshot.diagnosis.attribute_gaps import AttributeColumn, Groups, find_gaps, groups_of
from longshot.diagnosis.interventions import Intervention, judge_interventions, p_of_mean, replace_suspects
from longshot.diagnosis.suspicions import (
    LABEL,
    LEANING,
    MODE,
    Suspicion,
    suspect_attributes,
    suspect_embeddings,
    suspect_labels,
)
from longshot.diagnosis.swaps import plan_swaps, uniform_supports
from longshot.diagnosis.trials import UNEXPLAINED, make_account
from longshot.models import Features, Suspects

CLASSES, EACH, DIM = 12, 40, 8
OFFSETS = np.arange(CLASSES + 1) * EACH
LABELS = np.repeat(np.arange(CLASSES), EACH).astype(np.int32)


def world(seed: int, effect: float, share: float = 0.5) -> tuple[NDArray[np.float32], Bools]:
    """Features of 12 classes, and a mark on a share of the images that moves them towards the next class."""
    rng = np.random.default_rng(seed)
    means = rng.normal(0, 1.2, (CLASSES, DIM))
    marked = rng.random(len(LABELS)) < share
    features = means[LABELS] + rng.normal(0, 1, (len(LABELS), DIM))
    features += effect * marked[:, None] * (means[(LABELS + 1) % CLASSES] - means[LABELS])
    return features.astype(np.float32), marked


def tasks(
    seed: int, count: int, marked: Bools | None, way: int = 4, shot: int = 4, query: int = 6
) -> TaskRows:
    """Random tasks; with ``marked`` the supports have the mark and the queries have not."""
    rng = np.random.default_rng(seed)
    plans, support, queries = [], [], []
    for _ in range(count):
        start = int(rng.integers(CLASSES))
        classes = (start + np.arange(way)) % CLASSES  # neighbours, so that leaning matters
        plans.append(classes)
        chosen, tested = [], []
        for label in classes:
            rows = rng.permutation(np.arange(OFFSETS[label], OFFSETS[label + 1]))
            if marked is not None:
                rows = np.concatenate([rows[marked[rows]], rows[~marked[rows]]])
            chosen.append(rows[:shot])
            tested.append(rows[-query:])
        support.append(np.concatenate(chosen))
        queries.append(np.concatenate(tested))
    plan = TaskPlan(
        Ragged.from_lists(plans),
        Ragged.from_lists([[shot] * way] * count),
        Ragged.from_lists([[query] * way] * count),
    )
    return TaskRows.from_plan(plan, Ragged.from_lists(support), Ragged.from_lists(queries))


def nearest_mean(features: NDArray[np.float32], bound: TaskRows) -> Floats:
    """ProtoNet in NumPy, task by task."""
    shares = []
    for task in range(len(bound)):
        rows, labels = bound.support.row(task), bound.support_label.row(task)
        means = np.stack([features[rows[labels == label]].mean(0) for label in range(int(bound.ways[task]))])
        distances = ((features[bound.query.row(task)][:, None] - means) ** 2).sum(2)
        shares.append((distances.argmin(1) == bound.query_label.row(task)).mean())
    return np.array(shares)


def tried(
    features: NDArray[np.float32], bound: TaskRows, numbers: Floats, seed: int = 0
) -> Intervention | None:
    """The one attribute ``numbers`` suspected and replaced; None where it is suspected nowhere."""
    gaps = find_gaps([AttributeColumn("planted", "yes", numbers)], bound, LABELS)
    suspicions = suspect_attributes(gaps, OFFSETS)
    if not suspicions:
        return None
    (intervention,) = judge_interventions(
        replace_suspects(
            suspicions,
            bound,
            gaps.groups,
            OFFSETS,
            lambda rows: nearest_mean(features, rows),
            draws=3,
            seed=seed,
        )
    )
    return intervention


def test_a_planted_cause_comes_back_and_an_idle_mark_does_not() -> None:
    features, marked = world(1, effect=0.6)
    bound = tasks(2, 30, marked)
    cause = tried(features, bound, marked.astype(float))
    assert cause is not None and cause.holds and cause.against == "same" and cause.tasks == 30
    assert cause.recovered is not None and cause.recovered.low is not None and cause.recovered.low > 0.05
    assert cause.beyond_random is not None and 0 < cause.beyond_random.mean < cause.recovered.mean
    assert cause.sentence.startswith("because of planted: 30 of 30 tasks, ")
    idle, mark = world(1, effect=0.0)
    innocent = tried(idle, tasks(2, 30, mark), mark.astype(float))
    assert innocent is not None and not innocent.holds and innocent.suspected == 30
    assert innocent.recovered is not None and abs(innocent.recovered.mean) < 0.05
    assert innocent.sentence.startswith("not shown: planted")


def test_intervals_cover_nothing_where_nothing_is_planted() -> None:
    """Over 40 worlds with an idle mark the 95 % interval holds 0 in most, and few are claimed."""
    covered = claims = 0
    for seed in range(40):
        features, marked = world(seed, effect=0.0)
        innocent = tried(features, tasks(seed, 12, marked), marked.astype(float), seed)
        assert innocent is not None and innocent.recovered is not None
        covered += not innocent.recovered.excludes(0)
        claims += innocent.holds
    assert covered >= 34, covered  # P(fewer than 34 of 40 | 95 %) = 0.003
    assert claims <= 4, claims


def test_exchanged_images_are_the_classes_own_and_outside_the_task() -> None:
    _, marked = world(3, effect=0.0)
    bound = tasks(4, 6, marked)
    groups = groups_of(bound, LABELS)
    gaps = find_gaps([AttributeColumn("planted", "yes", marked.astype(float))], bound, LABELS)
    (suspicion,) = suspect_attributes(gaps, OFFSETS)
    swaps = plan_swaps(suspicion, bound, groups, OFFSETS, draws=4)
    assert swaps is not None and swaps.same is not None and len(swaps.without) == 4 * len(swaps.positions)
    for arm, share in ((swaps.without, 0.0), (swaps.same, 1.0), (swaps.at_random, None)):
        for number in range(len(arm)):
            task = int(swaps.positions[number % len(swaps.positions)])
            rows, before = arm.support.row(number), bound.support.row(task)
            assert len(set(rows.tolist())) == len(rows)
            assert not set(rows.tolist()) & set(bound.query.row(task).tolist())
            np.testing.assert_array_equal(LABELS[rows], LABELS[before])
            np.testing.assert_array_equal(arm.support_label.row(number), bound.support_label.row(task))
            fresh = rows[rows != before]
            assert not set(fresh.tolist()) & set(before.tolist())
            if share is not None:
                assert (marked[fresh] == share).all() and len(fresh) == 16


def test_what_is_drawn_for_a_task_does_not_depend_on_the_others() -> None:
    _, marked = world(3, effect=0.0)
    bound = tasks(4, 4, marked)
    drawn_for = []
    for part in (bound, bound.take([2])):
        gaps = find_gaps([AttributeColumn("planted", "yes", marked.astype(float))], part, LABELS)
        (suspicion,) = suspect_attributes(gaps, OFFSETS)
        swaps = plan_swaps(suspicion, part, gaps.groups, OFFSETS, draws=1)
        assert swaps is not None
        drawn_for.append(swaps.without.support.row(int(np.flatnonzero(swaps.without.tasks == 2)[0])))
    np.testing.assert_array_equal(*drawn_for)


def test_uniform_supports_keep_shape_and_leave_queries() -> None:
    bound = tasks(5, 5, None)
    uniform = uniform_supports(bound, groups_of(bound, LABELS), OFFSETS, draws=3)
    assert len(uniform) == 15
    for number in range(15):
        rows = uniform.support.row(number)
        assert len(set(rows.tolist())) == 16
        assert not set(rows.tolist()) & set(bound.query.row(number % 5).tolist())
        np.testing.assert_array_equal(LABELS[rows], LABELS[bound.support.row(number % 5)])


def everywhere(groups: Groups, having: Bools, lacking: Bools) -> Suspicion:
    """Every group suspected, with the same marks over the images of each class."""
    number = np.arange(len(groups))
    return Suspicion("planted", number, [having] * len(groups), [lacking] * len(groups))


def test_a_cause_that_no_image_lacks_is_one_sentence() -> None:
    features, _ = world(0, effect=0.0)
    bound = tasks(0, 3, None)
    groups = groups_of(bound, LABELS)
    every = np.ones(EACH, bool)
    (result,) = judge_interventions(
        replace_suspects(
            [everywhere(groups, every, ~every)],
            bound,
            groups,
            OFFSETS,
            lambda rows: nearest_mean(features, rows),
            class_names=[f"c{label}" for label in range(CLASSES)],
        )
    )
    assert result.recovered is None and not result.holds and result.tasks == 0
    assert len(result.notes) == 1 and "no image outside the tasks is without it" in result.notes[0]


def test_too_few_images_replace_in_part_and_say_so() -> None:
    bound = tasks(0, 3, None)
    groups = groups_of(bound, LABELS)
    lacking = np.zeros(EACH, bool)
    lacking[:2] = True  # at most two images of a class are without the cause
    swaps = plan_swaps(everywhere(groups, ~lacking, lacking), bound, groups, OFFSETS, draws=2)
    assert swaps is not None and len(swaps.scarce) and swaps.images <= 2 * len(groups)


def features_of(array: NDArray[np.float32]) -> Features:
    keys = pa.array([f"{label}/{row}.png" for row, label in enumerate(LABELS)])
    ids = tuple(str(label) for label in range(CLASSES))
    return Features(array, keys, ids, OFFSETS, "planted", "f" * 64, "pixels", "", "", "h" * 64)


def test_modes_and_leanings_are_suspected_where_planted_and_rarely_elsewhere() -> None:
    array, marked = world(7, effect=1.2, share=0.25)
    groups = groups_of(tasks(8, 25, marked), LABELS)
    by_kind = {each.kind: each for each in suspect_embeddings(features_of(array), groups)}
    assert len(by_kind[MODE]) > 40 and len(by_kind[LEANING]) > 40
    leaning = by_kind[LEANING]
    assert leaning.towards is not None
    next_class = (groups.label[leaning.groups] + 1) % CLASSES
    there = groups.position[leaning.groups] < 3  # the last class of a task leans to one that is not in it
    assert np.mean((leaning.towards == next_class)[there]) > 0.9
    for having, lacking in zip(leaning.having, leaning.lacking, strict=True):
        assert (having ^ lacking).all()
    plain = suspect_embeddings(features_of(array), groups_of(tasks(9, 100, None), LABELS))
    assert all(len(each) <= 40 for each in plain)  # 5 % of 400, and room for chance


def test_doubtful_labels_are_replaced_by_images_nobody_doubts() -> None:
    features = features_of(world(0, effect=0.0)[0])
    bound = tasks(1, 4, None)
    groups = groups_of(bound, LABELS)
    wrong: Ints = np.array([int(bound.support.values[0]), int(bound.support.values[5])])
    none = np.empty(0, np.int64)
    (suspicion,) = suspect_labels(Suspects(features, wrong, none, np.ones(0), np.arange(0, 480, 40)), groups)
    assert suspicion.kind == LABEL and len(suspicion) >= 2
    swaps = plan_swaps(suspicion, bound, groups, OFFSETS, draws=3)
    assert swaps is not None and swaps.same is None  # no other image of the class is doubtful
    assert not np.isin(swaps.without.support.values, wrong).any()
    assert not suspect_labels(Suspects(features, none, none, np.ones(0), none), groups)


def test_holm_over_kinds_decides_and_harm_is_never_a_cause() -> None:
    rng = np.random.default_rng(0)

    def intervention(kind: str, mean: float) -> Intervention:
        from longshot.statistics import mean_interval

        values = mean + rng.normal(0, 0.05, 30)
        plain = Intervention("d", kind, "replace", 30, 30, tasks=30)
        return replace(plain, recovered=mean_interval(values), p=p_of_mean(values))

    judged = judge_interventions([intervention("a", 0.0), intervention("b", 0.2), intervention("c", -0.2)])
    assert [(each.kind, each.holds) for each in judged] == [("b", True), ("a", False), ("c", False)]
    assert (
        judged[0].adjusted is not None and judged[0].p is not None and judged[0].adjusted >= 3 * judged[0].p
    )
    assert p_of_mean(np.array([0.3])) is None and p_of_mean(np.zeros(4)) == 1.0


def test_the_account_counts_every_task_once_and_adds_up() -> None:
    numbers = np.arange(10)
    accuracy, uniform = np.full(10, 0.4), np.full(10, 0.7) + np.linspace(-0.05, 0.05, 10)

    def holding(kind: str, by_task: dict[int, float]) -> Intervention:
        return Intervention("d", kind, "replace", len(by_task), 10, holds=True, by_task=by_task)

    seen = holding("blur", dict.fromkeys(range(4), 0.1))
    shift = holding(MODE, dict.fromkeys(range(8), 0.2))
    account = make_account("d", numbers, accuracy, uniform, [shift, seen])
    assert [(share.kind, share.tasks) for share in account.shares] == [("blur", 4), (MODE, 4), ("", 2)]
    assert account.explained == 8 and account.shares[-1].meaning == UNEXPLAINED
    assert sum(share.points.mean for share in account.shares) == pytest.approx(account.cost.mean)
    assert account.share is not None and account.share.mean == pytest.approx((4 * 0.1 + 4 * 0.2) / 3)
    easy = make_account("d", numbers, uniform, uniform, [])
    assert easy.share is None and easy.shares == () and "no difficulty to divide" in easy.sentence
