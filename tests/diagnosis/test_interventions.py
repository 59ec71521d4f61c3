"""Worlds planted in feature space: a cause that moves supports comes back, one that does not is never claimed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from longshot.base import Bools, Floats, Ints, Ragged, TaskPlan, TaskRows
from longshot.diagnosis.attribute_gaps import AttributeColumn, find_gaps, groups_of
from longshot.diagnosis.interventions import grown, reach_of, redraw, shapley, worths
from longshot.diagnosis.suspicions import (
    LABEL,
    LEANING,
    SIDE,
    Suspicion,
    suspect_embeddings,
    suspect_labels,
    suspicions_of,
)
from longshot.diagnosis.trials import (
    UNEXPLAINED,
    Intervention,
    Trial,
    conclude,
    find_remedies,
    judge_interventions,
    make_account,
    p_of_mean,
)
from longshot.models import Features, Suspects
from longshot.statistics import mean_interval

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


def features_of(array: NDArray[np.float32]) -> Features:
    keys = pa.array([f"{label}/{row}.png" for row, label in enumerate(LABELS)])
    ids = tuple(str(label) for label in range(CLASSES))
    return Features(array, keys, ids, OFFSETS, "planted", "f" * 64, "pixels", "", "", "h" * 64)


def no_suspects(features: Features) -> Suspects:
    none = np.empty(0, np.int64)
    return Suspects(features, none, none, np.ones(0))


def trial_of(array: NDArray[np.float32], bound: TaskRows, suspicions: list[Suspicion]) -> Trial:
    """Play all suspicions, as ``try_causes`` does, with ProtoNet in NumPy."""
    groups = groups_of(bound, LABELS)
    trial = Trial(
        "planted",
        bound,
        groups,
        OFFSETS,
        suspicions,
        lambda rows: nearest_mean(array, rows),
        lambda rows: tuple(map(str, rows.tolist())),
        [str(label) for label in range(CLASSES)],
        (),
    )
    points = shapley(worths(redraw(suspicions, bound, groups, OFFSETS, draws=2), trial.evaluate)[0])
    numbers = bound.tasks.tolist()
    first = [
        Intervention(
            "planted",
            each.kind,
            int(each.suspected.any()),
            len(row),
            mean_interval(row),
            p_of_mean(row),
            by_task=dict(zip(numbers, row.tolist(), strict=True)),
        )
        for each, row in zip(suspicions, points, strict=True)
    ]
    return replace(trial, first=first)


def marks(marked: Bools, bound: TaskRows, kind: str = "planted") -> Suspicion:
    """The mark, suspected everywhere."""
    labels = groups_of(bound, LABELS).label.tolist()
    values = [marked[OFFSETS[label] : OFFSETS[label + 1]].astype(float) for label in labels]
    return Suspicion(kind, values, True, np.ones(len(labels), np.bool_))


def test_a_planted_cause_explains_the_loss_and_an_idle_mark_nothing() -> None:
    array, marked = world(1, effect=0.6)
    bound = tasks(2, 30, marked)
    rng = np.random.default_rng(0)
    idle = marks(rng.random(len(LABELS)) < 0.5, bound, "idle")
    (cause, other), (account,), remedies = conclude(
        [trial_of(array, bound, [marks(marked, bound), idle])], draws=2
    )
    assert (cause.kind, cause.holds, other.kind, other.holds) == ("planted", True, "idle", False)
    assert cause.points.low is not None and cause.points.low > 0.05
    assert cause.sentence.startswith("because of planted: ") and other.sentence.startswith("not shown: idle")
    assert account.share is not None and account.share.mean > 0.8 and account.fresh
    assert sum(share.points.mean for share in account.shares) == pytest.approx(account.loss.mean)
    assert [share.meaning for share in account.shares] == ["planted", UNEXPLAINED]
    assert remedies[0].class_name == "" and remedies[0].gain.mean > remedies[0].control.mean + 0.02
    assert all(remedy.gain.low is not None and remedy.gain.low > 0 for remedy in remedies[1:])


def test_points_are_those_of_matched_supports() -> None:
    """The mark alone makes the loss: its points are accuracy with unmarked supports minus that with marked ones."""
    array, marked = world(3, effect=0.6)
    bound = tasks(4, 60, marked)
    matched = tasks(4, 60, np.ones(len(LABELS), np.bool_) & ~marked, query=6)
    queries = replace(matched, query=bound.query, query_label=bound.query_label)
    truth = nearest_mean(array, queries).mean() - nearest_mean(array, bound).mean()
    (cause,), _, _ = conclude([trial_of(array, bound, [marks(marked, bound)])])
    assert cause.points.mean == pytest.approx(truth, abs=0.05)


def test_supports_are_redrawn_value_against_value() -> None:
    """Three values: supports have the first, queries the second; the third, which neither has, never comes."""
    value = np.tile(np.repeat([0.0, 1.0, 2.0], [14, 14, 12]), CLASSES)
    rng = np.random.default_rng(0)
    bound = tasks(5, 10, value == 0)  # supports of value 0
    rows = bound.query.values.copy()
    for position, label in enumerate(LABELS[rows]):
        rows[position] = rng.choice(np.flatnonzero((label == LABELS) & (value == 1)))
    bound = replace(bound, query=bound.query.with_values(rows))
    groups = groups_of(bound, LABELS)
    values = [value[OFFSETS[label] : OFFSETS[label + 1]] for label in groups.label.tolist()]
    suspicion = Suspicion("three", values, True, np.ones(len(groups), np.bool_))
    redrawn = redraw([suspicion], bound, groups, OFFSETS, draws=3)
    assert (value[redrawn.supports[0]] == 0).all() and (value[redrawn.supports[1]] == 1).all()
    assert (value[redrawn.queries] == 1).all() and redrawn.fresh
    for draw in range(3):
        for task in range(len(bound)):
            span = slice(bound.support.offsets[task], bound.support.offsets[task + 1])
            supports, queries = redrawn.supports[:, draw, span], redrawn.queries[draw]
            assert not np.isin(supports, bound.support.row(task)).any()
            assert not np.isin(supports, bound.query.row(task)).any()
            own = queries[bound.query.offsets[task] : bound.query.offsets[task + 1]]
            assert not np.isin(supports, own).any()
            assert (LABELS[supports] == LABELS[bound.support.row(task)]).all()


def test_what_is_drawn_depends_on_the_task_alone() -> None:
    _, marked = world(1, effect=0.6)
    bound = tasks(2, 6, marked)
    parts = [bound, bound.take([4])]
    redraws = [redraw([marks(marked, part)], part, groups_of(part, LABELS), OFFSETS) for part in parts]
    span = slice(bound.support.offsets[4], bound.support.offsets[5])
    np.testing.assert_array_equal(redraws[0].supports[:, :, span], redraws[1].supports)


def test_shapley_is_the_mean_over_all_orders() -> None:
    from itertools import permutations

    worth = np.random.default_rng(0).normal(size=(16, 3))
    expected = np.zeros((4, 3))
    for order in permutations(range(4)):
        before = 0
        for cause in order:
            expected[cause] += (worth[before | 1 << cause] - worth[before]) / 24
            before |= 1 << cause
    np.testing.assert_allclose(shapley(worth), expected)
    np.testing.assert_allclose(shapley(worth).sum(0), worth[-1] - worth[0])


def test_a_class_grows_alone() -> None:
    _, marked = world(1, effect=0.6)
    bound = tasks(2, 5, marked)
    groups = groups_of(bound, LABELS)
    redrawn = redraw([marks(marked, bound)], bound, groups, OFFSETS)
    one_class = grown(redrawn, 0, 1, groups, np.array([6]))  # the third class of the second task
    assert np.bincount(one_class.support_label.values).tolist() == [4, 4, 7, 4]
    added = np.setdiff1d(one_class.support.values, bound.support.row(1))
    assert len(added) == 3 and (LABELS[added] == groups.label[6]).all() and not marked[added].any()
    every = grown(redrawn, 0, 0, groups)
    assert np.bincount(every.support_label.row(3)).tolist() == [7, 7, 7, 7]


def test_leaning_and_sides_are_suspected_where_planted_and_rarely_elsewhere() -> None:
    array, marked = world(7, effect=1.2, share=0.25)
    bound = tasks(8, 25, marked)
    groups = groups_of(bound, LABELS)
    by_kind = {each.kind: each for each in suspect_embeddings(features_of(array), groups)}
    leaning = by_kind[LEANING]
    assert leaning.suspected.sum() > 40 and leaning.towards is not None
    next_class = (groups.label + 1) % CLASSES
    there = leaning.suspected & (
        groups.position < 3
    )  # the last class of a task leans to one that is not in it
    assert np.mean((leaning.towards == next_class)[there]) > 0.9
    # what the mark explains is no leaning
    assert not suspect_embeddings(features_of(array), groups, [marks(marked, bound)])
    assert not suspect_embeddings(features_of(array), groups_of(tasks(9, 100, None), LABELS))


def test_supports_from_one_side_are_suspected() -> None:
    array, _ = world(0, effect=0.0)
    away = array[:, 0] - np.repeat([array[s : s + EACH, 0].mean() for s in OFFSETS[:-1]], EACH)
    groups = groups_of(tasks(3, 25, away > np.quantile(away, 0.88)), LABELS)
    kinds = {each.kind: each.suspected.mean() for each in suspect_embeddings(features_of(array), groups)}
    assert max(kinds.values()) > 0.4 and set(kinds) <= {LEANING, SIDE}


def test_doubtful_labels_are_suspected_where_they_are_many() -> None:
    features = features_of(world(0, effect=0.0)[0])
    bound = tasks(1, 4, None)
    groups = groups_of(bound, LABELS)
    wrong: Ints = bound.support.values[[0, 5, 17, 33]]
    suspects = replace(no_suspects(features), mislabelled=wrong, rival=wrong * 0, odds=np.ones(4))
    (suspicion,) = suspect_labels(suspects, groups)
    assert suspicion.kind == LABEL and suspicion.suspected.sum() >= 4
    redrawn = redraw([suspicion], bound, groups, OFFSETS)
    assert not np.isin(redrawn.supports[1], wrong).any()
    assert not suspect_labels(no_suspects(features), groups)


def test_random_tasks_have_no_loss_to_divide() -> None:
    array, marked = world(11, effect=0.4)
    bound = tasks(12, 60, None)
    gaps = find_gaps([AttributeColumn("mark", "yes", marked.astype(float))], bound, LABELS)
    features = features_of(array)
    assert not suspicions_of(gaps, features, no_suspects(features))
    _, (account,), remedies = conclude([trial_of(array, bound, [])])
    assert account.share is None and not account.shares and not remedies
    assert "no loss to divide" in account.sentence


def test_small_classes_are_measured_on_their_own_queries() -> None:
    array, marked = world(1, effect=0.6)
    bound = tasks(2, 4, marked, shot=16, query=6)  # 18 others, which are needed for supports
    redrawn = redraw([], bound, groups_of(bound, LABELS), OFFSETS, draws=1)
    assert not redrawn.fresh and (redrawn.queries[0] == bound.query.values).all()
    (account,) = conclude([trial_of(array, bound, [])])[1]
    assert not account.fresh and "own queries" in account.sentence


def test_holm_over_kinds_decides_and_harm_is_never_a_cause() -> None:
    rng = np.random.default_rng(0)

    def intervention(kind: str, mean: float) -> Intervention:
        values = mean + rng.normal(0, 0.05, 30)
        return Intervention("d", kind, 30, 30, mean_interval(values), p_of_mean(values))

    judged = judge_interventions([intervention("a", 0.0), intervention("b", 0.2), intervention("c", -0.2)])
    assert [(each.kind, each.holds) for each in judged] == [("b", True), ("a", False), ("c", False)]
    assert (
        judged[0].adjusted is not None and judged[0].p is not None and judged[0].adjusted >= 3 * judged[0].p
    )
    assert p_of_mean(np.array([0.3])) is None and p_of_mean(np.zeros(4)) == 1.0


def test_shares_never_exceed_the_loss() -> None:
    accuracy, reference = np.full(10, 0.4), np.full(10, 0.7) + np.linspace(-0.05, 0.05, 10)

    def holding(kind: str, points: float) -> Intervention:
        by_task = {task: points + task / 1000 for task in range(10)}
        return Intervention(
            "d", kind, 10, 10, mean_interval(list(by_task.values())), holds=True, by_task=by_task
        )

    about = {"own": accuracy, "fresh": True, "name": "d"}
    account = make_account([holding("blur", 0.1), holding("domain", 0.15)], accuracy, reference, **about)
    points = [share.points.mean for share in account.shares]
    assert points == pytest.approx([0.1045, 0.1545, 0.041])
    assert account.share is not None and account.share.mean == pytest.approx(0.259 / 0.3)
    account = make_account([holding("blur", 0.3), holding("domain", 0.3)], accuracy, reference, **about)
    assert account.share is not None and account.share.mean == 1
    assert [share.points.mean for share in account.shares] == pytest.approx([0.15, 0.15, 0], abs=1e-9)
    easy = make_account([], reference, reference, **about)
    assert easy.share is None and easy.shares == ()


@pytest.mark.parametrize("height", [0.0, 0.4, 1.0])
def test_the_reach_says_how_far_other_images_go(height: float) -> None:
    """Queries lie at 0, supports at 1, all other images of a class between."""
    bound = tasks(3, 5, None)
    groups = groups_of(bound, LABELS)
    values = []
    for group, label in enumerate(groups.label.tolist()):
        places = np.full(len(LABELS), height)
        places[groups.support[groups.support_group == group]] = 1
        places[groups.query[groups.query_group == group]] = 0
        values.append(places[OFFSETS[label] : OFFSETS[label + 1]])
    suspicion = Suspicion(SIDE, values, False, np.ones(len(groups), np.bool_))
    redrawn = redraw([suspicion], bound, groups, OFFSETS)
    assert reach_of(redrawn, [suspicion], groups, OFFSETS) == pytest.approx(height)
    assert reach_of(redrawn, [], groups, OFFSETS) is None
    half = {"own": np.full(4, 0.4), "fresh": True, "name": "d", "reach": height}
    sentence = make_account([], np.full(4, 0.4), np.array([0.69, 0.7, 0.7, 0.71]), **half).sentence
    assert ("go 40 % as far" in sentence) == (height == 0.4) and ("larger classes" in sentence) == (
        height < 0.8
    )


def test_a_remedy_needs_tasks_that_show_it() -> None:
    array, marked = world(1, effect=0.6)
    bound = tasks(2, 3, marked)  # no class is in five tasks
    suspicion = marks(marked, bound)
    trial = trial_of(array, bound, [suspicion])
    redrawn = redraw([suspicion], bound, trial.groups, OFFSETS)
    (general,) = find_remedies(trial, [suspicion], redrawn)
    assert general.class_name == "" and general.tasks == 3 and general.causes == ("planted",)
    assert general.sentence.startswith("add 3 photos like these to every class: ")
