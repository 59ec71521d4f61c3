"""What the study VTAB+MD draws: episodes of its sources, and big episodes as large as a source allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from longshot.base import UserError, count, first
from longshot.data import Dataset
from longshot.studies.engine.comparisons import Draw
from longshot.studies.engine.lab import Evaluation, Lab, Plan
from longshot.studies.vtab_md.vtab_md_networks import ApproachRow, make_networks, make_rows, shape_of
from longshot.studies.vtab_md.vtab_md_sources import GROUPS, StudySource, VtabSettings, absence_sentences
from longshot.tasks import BigEpisode, BilevelClasses, FixedShape, Pool, Testbed, find_spec_file, split_rows

_PAPER = {"max_way": 50, "max_query": 10, "max_support": 500, "train": 800, "validation": 200}
_LIMITS = ("max_way", "max_query", "max_support")
_BIG = ("train", "validation", "support", "query", "block")


@dataclass(frozen=True)
class VtabPlan(Plan):
    """A plan with the rows that can be had and the sources that they are tested on, in the order of the paper."""

    rows: Sequence[ApproachRow] = ()
    sources: Sequence[StudySource] = ()
    big: Mapping[str, BigEpisode] = field(default_factory=dict)  # by source

    @property
    def episodic(self) -> list[StudySource]:
        """List the sources of episodes."""
        return [source for source in self.sources if source.role == "md"]

    def draws_of(self, settings: VtabSettings, row: ApproachRow) -> list[str]:
        """List the testbeds of a row's episodes."""
        return [episodes_name(settings, source.name, row.tasks) for source in self.episodic]


VtabLab = Lab[VtabSettings, Sequence[StudySource]]


def plan_of(lab: VtabLab) -> VtabPlan:
    """Return the plan that the lab carries out."""
    assert isinstance(lab.plan, VtabPlan)
    return lab.plan


def make_vtab_plan(settings: VtabSettings, sources: Sequence[StudySource]) -> VtabPlan:
    """Plan networks, testbeds and rows; what a source does not allow is left out and reported."""
    left_out = [f"{source.name} is left out: {source.problem}." for source in sources if source.problem]
    notes = [source.note for source in sources if source.note and not source.problem]
    networks, rows, lacking = make_networks(settings, make_rows(settings), sources)
    draws: list[Draw] = []
    big: dict[str, BigEpisode] = {}
    tested: list[StudySource] = []
    for source in sources:
        if source.problem or source.role not in ("md", *GROUPS):
            continue
        if source.role == "md":
            ways = _most_ways(settings, source)
            if ways < 2:
                left_out.append(f"{source.name} is left out: {_few_classes(settings, source)}.")
                continue
            draws += [
                episodes(settings, source, tasks, ways) for tasks in dict.fromkeys(r.tasks for r in rows)
            ]
        else:
            big[source.name] = fitted_episode(settings, source)
            parts = ("final", "choice") if any(len(row.vtab) > 1 for row in rows) else ("final",)
            draws += [big_draw(source.name, big[source.name], part) for part in parts]
        tested.append(source)
    if not tested:
        raise UserError(f"No source can be tested on. {left_out[0]}")
    absent = [*absence_sentences(tested), *left_out, *lacking]
    notes += _notes(settings, tested, big)
    plan = VtabPlan(networks, draws, (), absent, notes, rows, tested, big)
    return replace(plan, evaluations=_evaluations(settings, plan))


def _evaluations(settings: VtabSettings, plan: VtabPlan) -> list[Evaluation]:
    """List the evaluations; of several candidates the first stands for the one that will be chosen."""
    listed = []
    big = list(plan.big)
    for row in plan.rows:
        if row.md is not None and plan.episodic:
            listed.append(Evaluation(plan.draws_of(settings, row), row.backbone, [row.md]))
        if len(row.vtab) > 1 and big:
            listed.append(Evaluation([choice_name(name) for name in big], row.backbone, row.vtab))
        if row.vtab and big:
            listed.append(Evaluation(big, row.backbone, row.vtab[:1]))
    if not listed:
        raise UserError("No row has a method for the sources that are here; give rows md or vtab methods.")
    return listed


# --- episodes ---


def episodes_name(settings: VtabSettings, source: str, tasks: int) -> str:
    """Name the testbed of so many episodes of a source."""
    return source if tasks == settings.tasks else f"{source}-{tasks}-episodes"


def episodes(settings: VtabSettings, source: StudySource, tasks: int, ways: int) -> Draw:
    """Describe episodes of the source's test classes; Omniglot's of one alphabet each, as in Meta-Dataset.

    ``ways`` is the most that an episode of this source can have. Fewer episodes are the first of more. With a folder of
    specs in ``replay`` they are Meta-Dataset's own.
    """
    name = episodes_name(settings, source.name, tasks)
    if settings.replay is not None:
        spec = find_spec_file(settings.replay, source.name)
        fixed = {"tasks": tasks, "seed": settings.seed, "split": settings.split, "allow_repeats": True}
        return Draw(name, source.name, {"replay": str(spec), **fixed})
    words: dict[str, Any] = {
        "tasks": tasks,
        "shape": "meta-dataset",
        **{name: getattr(settings, name) for name in _LIMITS},
        "classes": "bilevel" if _by_alphabet(source) else "uniform",
        "seed": settings.seed,
        "split": _split(settings, source),
        "drop_small": True,
        "allow_repeats": True,
    }
    if ways < shape_of(settings).min_way:
        words["min_way"] = ways
    return Draw(name, source.name, words)


def _by_alphabet(source: StudySource) -> bool:
    return source.name == "omniglot" and source.data.taxonomy is not None


def _split(settings: VtabSettings, source: StudySource) -> str | None:
    return settings.split if source.data.splits.get(settings.split) else None


def _usable(settings: VtabSettings, source: StudySource) -> Pool:
    """Return the classes of episodes that have enough images."""
    classes = source.data.split_classes(_split(settings, source))
    enough = source.data.sizes[classes] >= shape_of(settings).min_images
    return Pool(source.data, classes[enough])


def _most_ways(settings: VtabSettings, source: StudySource) -> int:
    """Return the most classes that an episode of the source can have; below 2 there is none."""
    pool = _usable(settings, source)
    if not _by_alphabet(source):
        return len(pool.classes)
    try:
        return int(BilevelClasses().groups(FixedShape(way=2), pool).lengths.max())
    except UserError:
        return 0


def _few_classes(settings: VtabSettings, source: StudySource) -> str:
    usable, least = len(_usable(settings, source).classes), shape_of(settings).min_images
    return f"{count(usable, 'class', 'classes')} with at least {least} images to draw episodes from, and 2 are needed"


# --- big episodes ---


def choice_name(source: str) -> str:
    """Name the testbed that settings are chosen on."""
    return f"{source}-choice"


def fitted_episode(settings: VtabSettings, source: StudySource) -> BigEpisode:
    """Return the big episode of a source: as many images as are asked for, or as there are."""
    sizes = {part: len(rows) for part, rows in split_rows(source.data).items()}
    requested = {name: getattr(settings, name) for name in _BIG}
    return BigEpisode(
        **{**requested, **{part: min(requested[part], sizes[part]) for part in ("train", "validation")}},
        copies="allow" if source.official else None,  # a task of VTAB is taken as it was published
    )


def big_draw(source: str, episode: BigEpisode, part: str) -> Draw:
    """Describe a big episode as data: ``final`` asks for the test images, ``choice`` for validation ones."""
    words = {"shape": "big episode", "part": part, **{name: getattr(episode, name) for name in _BIG}}
    name = source if part == "final" else choice_name(source)
    return Draw(name, source, words, make=episode.final if part == "final" else episode.choice)


def shuffled_name(source: str) -> str:
    """Return the testbed whose support images have each other's labels."""
    return f"{source}-shuffled"


def shuffled_draw(source: str, episode: BigEpisode, testbed: Testbed, seed: int) -> Draw:
    """Return a big episode whose support images change places, so that there is nothing to learn from them."""
    words = {"shape": "big episode", "part": "final, support shuffled", "seed": seed}
    words |= {name: getattr(episode, name) for name in _BIG}

    def make(dataset: Dataset) -> Testbed:
        order = np.random.default_rng(seed).permutation(len(testbed[0].support))
        supports = [[keys[number] for number in order] for keys in testbed.table["support"].to_pylist()]
        column = pa.array(supports, testbed.table["support"].type)
        number = testbed.table.column_names.index("support")
        return testbed.changed(
            testbed.table.set_column(number, "support", column), sampler={"shuffled": words}
        )

    return Draw(shuffled_name(source), source, words, make=make)


# --- notes ---


def _notes(settings: VtabSettings, sources: Sequence[StudySource], big: dict[str, BigEpisode]) -> list[str]:
    """Note what differs from the paper's protocol, and facts on the sources, with their real sizes."""
    sentences = []
    episodic = [source for source in sources if source.role == "md"]
    unsplit = [source.name for source in episodic if _split(settings, source) is None]
    if unsplit:
        sentences.append(
            f"Episodes of all classes, having no {settings.split} classes of their own: {', '.join(unsplit)}."
        )
    for source in episodic:
        sentences += _episode_notes(settings, source)
    used = [*(_LIMITS if episodic else ()), *(("train", "validation") if big else ())]
    differing = [f"{key} = {getattr(settings, key)}" for key in used if getattr(settings, key) != _PAPER[key]]
    if differing:
        sentences.append(f"Not the paper's settings: {', '.join(differing)}.")
    return [*sentences, *_big_notes(settings, big)]


def _episode_notes(settings: VtabSettings, source: StudySource) -> list[str]:
    """Note whether episodes of a source are narrower than the protocol's, or leave classes out."""
    sentences, shape, ways = [], shape_of(settings), _most_ways(settings, source)
    if ways < shape.min_way:
        sentences.append(
            f"{source.name}: episodes of {ways} ways, where the protocol has {shape.min_way} or more: an episode "
            f"finds no more than {count(ways, 'class', 'classes')} to draw."
        )
    classes = source.data.split_classes(_split(settings, source))
    small = len(classes) - len(_usable(settings, source).classes)
    if small:
        sentences.append(
            f"{source.name}: {small} of {count(len(classes), 'class', 'classes')} have fewer than "
            f"{shape.min_images} images and are left out."
        )
    return sentences


def _big_notes(settings: VtabSettings, big: dict[str, BigEpisode]) -> list[str]:
    """Note what big episodes learn from, by their real sizes."""
    if not big:
        return []
    by_size: dict[tuple[int, int], list[str]] = {}
    for name, episode in big.items():
        by_size.setdefault((episode.train, episode.validation), []).append(name)
    sentences = []
    for (train, validation), names in by_size.items():
        here = "All big episodes" if len(by_size) == 1 else f"The big episodes of {first(names, 30)}"
        words = f"the first {train:,} train images and the first {validation:,} validation images"
        if settings.support == "trainval":
            words = f"the first {train + validation:,} images of train with validation behind it (trainval)"
        elif (train, validation) == (800, 200):
            words += " (VTAB's train800val200)"
        if (train, validation) != (settings.train, settings.validation):
            words += f": there are no more, {settings.train:,} + {settings.validation:,} were asked for"
        sentences.append(f"{here} learn from {words}.")
    if settings.query is not None:
        sentences.append(f"Big episodes are asked for the first {settings.query:,} test images only.")
    return sentences
