"""Hidden test tasks are drawn as the protocol says, and say nothing about their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from longshot.arena import Competition
from longshot.arena.competition_data import CompetitionData, HiddenTask
from longshot.arena.settings import CompetitionShape, Phase
from longshot.base import UserError, write_text

LEVEL = 1e-3  # of the tests below; the draws are fixed by the secret, so a test that passes always passes


@pytest.fixture(scope="module", autouse=True)
def equal_images_alone() -> Iterator[None]:
    """Hundreds of datasets are made here, and what is asked of them is their shape: near copies are not looked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longshot.audit.copies.MOST_SEARCHED", 0)
        yield


def made(folder: Path, sizes: list[int], name: str = "d") -> str:
    """A dataset of tiny images with classes of the given sizes."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    pixels = np.zeros((len(labels), 2, 2, 3), np.uint8)  # no two alike: the number in two bytes
    pixels[:, 0, 0, 0], pixels[:, 1, 1, 1] = np.arange(len(labels)) % 256, np.arange(len(labels)) // 256
    np.savez(folder / f"{name}.npz", images=pixels, labels=labels)
    return str(folder / f"{name}.npz")


def write_secret(path: Path, text: str) -> None:
    write_text(path, text)
    path.chmod(0o600)


def competition(
    folder: Path,
    datasets: dict[str, str],
    tasks: int,
    shape: CompetitionShape | None = None,
    pools: Literal["disjoint", "shared"] = "shared",
    draws: Literal["fixed", "per-submission"] = "fixed",
) -> tuple[CompetitionData, Phase]:
    folder.mkdir(parents=True, exist_ok=True)
    write_secret(folder / "secret", "0123456789abcdef" * 4)
    phase = Phase(name="feedback", train=("d",), test=tuple(datasets), tasks=tasks)
    made = Competition(
        folder=folder,
        title="t",
        datasets=datasets,
        phases=(phase,),
        shape=shape or CompetitionShape(),
        image_size=2,
        pools=pools,
        draws=draws,
    )
    return CompetitionData(made), phase


def uniform(counts: Counter[int], low: int, high: int) -> float:
    """The p-value of the counts under U{low … high}; nothing lies outside."""
    assert set(counts) <= set(range(low, high + 1))
    return float(stats.chisquare([counts[value] for value in range(low, high + 1)]).pvalue)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[HiddenTask]:
    """3,000 tasks of a dataset with 25 classes of 50 images."""
    folder = tmp_path_factory.mktemp("many")
    data, phase = competition(folder / "c", {"d": made(folder, [50] * 25)}, 3_000)
    return data.test_tasks(phase, 1)


def test_ways_are_uniform_from_2_to_20(many):
    assert uniform(Counter(task.ways for task in many), 2, 20) > LEVEL


def test_shots_are_uniform_from_1_to_20(many):
    assert uniform(Counter(task.shots for task in many), 1, 20) > LEVEL


def test_ways_and_shots_are_independent(many):
    table = np.zeros((19, 20))
    np.add.at(table, ([task.ways - 2 for task in many], [task.shots - 1 for task in many]), 1)
    assert stats.chi2_contingency(table).pvalue > LEVEL


def test_every_class_is_drawn_alike(many):
    queries = Counter(int(row) // 50 for task in many for row in task.query)
    counts = [queries[c] // 20 for c in range(25)]  # 20 queries each time
    assert stats.chisquare(counts).pvalue > LEVEL


def test_shots_leave_20_queries_of_the_smallest_class(tmp_path):
    data, phase = competition(tmp_path / "c", {"d": made(tmp_path, [27, 60, 60])}, 1_500)
    tasks = data.test_tasks(phase, 1)
    assert uniform(Counter(task.shots for task in tasks), 1, 7) > LEVEL
    assert uniform(Counter(task.ways for task in tasks), 2, 3) > LEVEL


def orders(tasks: list[HiddenTask], part: str) -> NDArray[np.float64]:
    """Mean label (from 0 to 1) at ten places of the order in which a part of a task is shown."""
    labels = [
        getattr(task, f"{part}_label") / (task.ways - 1) for task in tasks if task.shots * task.ways >= 10
    ]
    return np.array([[cut.mean() for cut in np.array_split(row, 10)] for row in labels])


@pytest.mark.parametrize("part", ["support", "query"])
def test_the_order_says_nothing_about_the_labels(many, part):
    means = orders(many, part)
    assert (stats.ttest_1samp(means, 0.5).pvalue > LEVEL).all()
    # Sets have as many of each label, so a little below 0.
    assert abs(np.corrcoef(means[:, 0], means[:, 9])[0, 1]) < 0.25


def test_the_order_of_queries_does_not_follow_from_that_of_the_support(tmp_path):
    """As many queries as shots: with one stream for both, equal orders would give the labels away."""
    shape = CompetitionShape(min_way=4, max_way=4, min_shot=20, max_shot=20, query=20)
    data, phase = competition(tmp_path / "c", {"d": made(tmp_path, [40] * 6)}, 200, shape)
    equal = [(task.support_label == task.query_label).mean() for task in data.test_tasks(phase, 1)]
    assert stats.ttest_1samp(equal, 0.25).pvalue > LEVEL


def test_tasks_follow_from_the_whole_secret(tmp_path):
    """The key of the draws is not a short number that could be guessed: every part of the secret counts."""
    source = made(tmp_path, [45] * 6)

    def seeds(secret: str) -> list[int]:
        data, phase = competition(tmp_path / secret[:3] / secret[-3:], {"d": source}, 5)
        write_secret(data.competition.folder / "secret", secret)
        return [task.seed for task in data.test_tasks(phase, 1)]

    first = seeds("a" * 64)
    assert seeds("a" * 63 + "b") != first and seeds("b" + "a" * 63) != first


def test_the_same_secret_gives_the_same_tasks_for_ever(tmp_path):
    """A final that is run again years later must ask the same questions."""
    data, phase = competition(tmp_path / "c", {"d": made(tmp_path, [45] * 6)}, 4)
    tasks = data.test_tasks(phase, 1)
    assert [(task.number, task.ways, task.shots, task.seed) for task in tasks] == [
        (2, 5, 5, 142081254),
        (1, 2, 4, 1379678048),
        (0, 6, 11, 407196154),
        (3, 2, 1, 12428618),
    ]
    assert tasks[0].support[:3].tolist() == [212, 207, 190]
    assert tasks[0].query[:3].tolist() == [263, 81, 94]
    assert tasks[0].support_label[:5].tolist() == [1, 1, 1, 3, 0]
    assert tasks[0].query_label[:5].tolist() == [0, 2, 4, 1, 2]
    assert data.test_tasks(phase, 2)[0].seed != tasks[0].seed


def _final(data):
    """Return a phase whose tasks only the organiser can draw."""
    return data.competition.phases[-1].model_copy(update={"public": False})


def test_the_secret_is_made_once_whoever_comes_first(tmp_path, monkeypatch):
    """Another worker makes it between our look and our writing: its text is the one that counts."""
    data, _ = competition(tmp_path / "c", {}, 1)
    path = data.competition.folder / "secret"
    path.unlink()
    real = Path.is_file

    def look(self: Path) -> bool:
        there = real(self)
        if self == path and not there:
            write_secret(path, "made by another")
        return there

    monkeypatch.setattr(Path, "is_file", look)
    assert data.secret(_final(data)) == "made by another"
    assert sorted(file.name for file in path.parent.iterdir()) == ["secret"]


def test_the_secret_is_for_the_organiser_alone(tmp_path):
    data, _ = competition(tmp_path / "c", {}, 1)
    path = data.competition.folder / "secret"
    path.unlink()
    assert len(data.secret(_final(data))) == 64
    assert path.stat().st_mode & 0o077 == 0


CHECKS = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@settings(max_examples=10, **CHECKS)
@given(
    sizes=st.lists(st.integers(24, 60), min_size=2, max_size=24),
    other=st.lists(st.integers(24, 60), min_size=2, max_size=6),
    seed=st.integers(0, 5),
    pools=st.sampled_from(["disjoint", "shared"]),
)
def test_every_task_is_as_the_protocol_says(tmp_path, sizes, other, seed, pools):
    specs = {"d": made(tmp_path, sizes), "e": made(tmp_path, other, "e")}
    shape = CompetitionShape(max_shot=4 if pools == "disjoint" else 20)  # the smallest class has 24 images
    data, phase = competition(tmp_path / "c", specs, 15, shape, pools)
    classes = {"d": sizes, "e": other}
    tasks = data.test_tasks(phase.model_copy(update={"test": ("d", "e")}), seed)
    assert Counter(task.dataset for task in tasks) == {"d": 15, "e": 15}
    support: dict[str, set[int]] = {"d": set(), "e": set()}
    query: dict[str, set[int]] = {"d": set(), "e": set()}
    for task in tasks:
        owner = np.repeat(np.arange(len(classes[task.dataset])), np.diff(data.dataset(task.dataset).offsets))
        assert 2 <= task.ways <= min(20, len(classes[task.dataset]))
        assert 1 <= task.shots <= min(shape.max_shot, min(classes[task.dataset]) - 20)
        assert (np.bincount(task.support_label, minlength=task.ways) == task.shots).all()
        assert (np.bincount(task.query_label, minlength=task.ways) == 20).all()
        rows, labels = np.append(task.support, task.query), np.append(task.support_label, task.query_label)
        assert len(np.unique(rows)) == len(rows)
        assert len(set(zip(owner[rows].tolist(), labels.tolist(), strict=True))) == task.ways
        support[task.dataset].update(task.support.tolist())
        query[task.dataset].update(task.query.tolist())
    if pools == "disjoint":  # no image is support in one task and query in another
        assert not support["d"] & query["d"] and not support["e"] & query["e"]


def parts(tasks: list[HiddenTask]) -> tuple[set[int], set[int]]:
    """All rows that are support in some task, and all that are queries."""
    rows = ([task.support for task in tasks], [task.query for task in tasks])
    support, query = ({int(row) for each in part for row in each} for part in rows)
    return support, query


def test_pools_are_sized_for_the_largest_shot_and_query(tmp_path):
    """Shots go up to 20 although no image is both; nearly all images take part."""
    data, phase = competition(tmp_path / "c", {"d": made(tmp_path, [60] * 20)}, 1_500, pools="disjoint")
    tasks = data.test_tasks(phase, 1)
    assert uniform(Counter(task.shots for task in tasks), 1, 20) > LEVEL
    support, query = parts(tasks)
    assert not support & query
    assert len(support) == len(query) == 600  # 30 : 30 of each class, as 20 shots to 20 queries


def test_the_parts_are_the_same_in_every_run_phase_and_submission(tmp_path):
    """Seeds run at the same time, and submissions come one after another: none has another's support as a query."""
    source = made(tmp_path, [45] * 6)
    data, phase = competition(tmp_path / "c", {"d": source}, 40, pools="disjoint", draws="per-submission")
    final = phase.model_copy(update={"name": "final"})
    draws = [(phase, 1, None), (phase, 2, None), (phase, 1, 7), (phase, 1, 8), (final, 1, 7)]
    runs = [data.test_tasks(*run) for run in draws]
    assert len({tuple(task.seed for task in tasks) for tasks in runs}) == len(runs)  # other tasks each time
    support, query = parts([task for tasks in runs for task in tasks])
    assert not support & query


def test_draws_of_a_submission_are_its_own_and_can_be_repeated(tmp_path):
    data, phase = competition(tmp_path / "c", {"d": made(tmp_path, [45] * 6)}, 4, draws="per-submission")
    first = [task.seed for task in data.test_tasks(phase, 1, 7)]
    assert [task.seed for task in data.test_tasks(phase, 1, 8)] != first
    assert [task.seed for task in data.test_tasks(phase, 1, 7)] == first
    fixed, phase = competition(tmp_path / "f", {"d": made(tmp_path, [45] * 6)}, 4)
    assert fixed.test_tasks(phase, 1, 7) is fixed.test_tasks(phase, 1, 8)


def test_too_few_images_for_both_parts_are_told_with_counts(tmp_path):
    data, phase = competition(tmp_path / "c", {"d": made(tmp_path, [60, 27, 60])}, 4, pools="disjoint")
    with pytest.raises(UserError) as error:
        data.test_tasks(phase, 1)
    assert str(error.value) == (
        "Class '1' of 'd' has 27 images, but 40 are needed so that none is support in one task and a query in another "
        "(max_shot 20 + query 20); 2 of 3 classes have enough; lower max_shot to 7 in the competition's shape, leave "
        "small classes out, or set 'pools: shared'."
    )
