"""Draw a testbed: shape × classes × instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from longshot.audit import CopyGroups, decided_rows, find_copies
from longshot.base import (
    Bools,
    Ints,
    Progress,
    UserError,
    check_count,
    is_url,
    progress,
    rows_of_classes,
    with_engine,
    with_executor,
)
from longshot.data import (
    Dataset,
    DatasetLike,
    TaxonomyLike,
    canonical_split,
    class_labels,
    taxonomy_facts,
    with_distances,
)
from longshot.tasks.base import Classes, Instances, Shape, open_with_splits, settings_of
from longshot.tasks.class_samplers import UniformClasses
from longshot.tasks.content import named_only, read_content
from longshot.tasks.drawing import DrawRecipe, draw, to_table
from longshot.tasks.instance_samplers import UniformInstances
from longshot.tasks.judges import (
    CANDIDATES,
    Judge,
    TaskScorer,
    embedded_judges,
    filter_tasks,
    measure_drops,
    named_networks,
    no_scorer,
    open_judges,
)
from longshot.tasks.measures import Measure, Part, coarsity_measure, find_suspected
from longshot.tasks.pools import ImageLimits, copy_facts, make_pools, straddle_facts
from longshot.tasks.streams import Streams
from longshot.tasks.testbed import Testbed
from longshot.tasks.testbed_file import claim_testbed
from longshot.tasks.words import (
    DIAL_SETTINGS,
    JUDGED,
    SampleSettings,
    check_sampler_settings,
    make_classes,
    make_instances,
    make_limits,
    make_shape,
)

if TYPE_CHECKING:
    from longshot.models import BackboneLike
    from longshot.tasks.alike import AlikeClasses
    from longshot.tasks.difficult import JudgedInstances

_BLOCK = 4096  # tasks whose images are drawn together: bounds memory, changes no draw


@with_engine
@with_executor
def sample(
    dataset: DatasetLike | Sequence[DatasetLike],
    *,
    tasks: int = 600,
    shape: Shape | str | None = "fixed",
    classes: Classes | str | None = "uniform",
    instances: Instances | str | None = "uniform",
    seed: int = 0,
    split: str | None = None,
    splits: str | Path | None = None,
    taxonomy: TaxonomyLike | None = None,
    distances: str | Path | None = None,
    drop_small: bool = False,
    allow_repeats: bool = False,
    suspects: BackboneLike | Sequence[BackboneLike] | None = None,
    limits: ImageLimits | None = None,
    measures: Sequence[Measure] = (),
    published: str | Path | None = None,
    class_order: str | Path | Sequence[str] | None = None,
    replay: str | Path | None = None,
    identity: str | None = None,
    out: str | Path | None = None,
    force: bool = False,
    score: TaskScorer | None = None,
    device: str = "auto",
    engine: str | None = None,
    workers: int = 1,
    block: int = _BLOCK,
    on: str | None = None,
    gpus_per_worker: float | None = None,
    retry_failed: bool | None = None,
    **settings: Unpack[SampleSettings],
) -> Testbed:
    """Draw few-shot tasks from a dataset (or from each of several) into a testbed.

    The result is a function of dataset fingerprint, settings and seed. Coarsity is measured wherever the dataset has a
    taxonomy. Shapes, classes and instances may also be words that a plugin adds, with settings as in a call:
    ``classes="every-nth(n=3)"``.

    Parameters
    ----------
    dataset : Dataset, str, Path, or a list of them
        What ``open_dataset`` opens. Each gets ``tasks`` tasks.
    out : file or URL, optional
        Testbed file or URL to write (Parquet). ``"-"`` is the screen, for pipes.
    force : bool
        Replace what is there, if it is not the same testbed.
    tasks : int, at least 1
        Tasks to draw from each dataset. The first n tasks of a seed are the same whatever the number.
    split : str, optional
        Draw only from the classes of this split: train, validation or test.
    splits : SPEC, str or Path, optional
        Classes of train, validation and test: a split.json, random, cifar-fs, fc100, atg:cifar100@0.96 … Goes
        with ``split``. See ``open_split``. Default: those of the dataset.
    drop_small : bool
        Leave out classes with too few images. They are an error otherwise.
    allow_repeats : bool
        Let the same task occur twice.
    published : file, optional
        Draw nothing: read a published task list (CSV: task, labels, image_id, support); ``query`` N draws
        queries for a list without any. Of the other settings it takes ``reduction`` alone.
    class_order : FILE, str, Path or sequence, optional
        With ``published``: the classes in the order its numbers count in: one a line, JSON, or FILE.csv:COLUMN.
        JSON is a list, or one under class_names.
    replay : SPEC, file, optional
        Repeat Meta-Dataset's own episodes of a source: its dataset_spec.json; goes with ``split`` and ``seed``.
        The split says of which classes, the seed is that of the reference. Classes, shots and queries are the
        reference's bit for bit, images are drawn by Longshot's own stream. The dataset must have those classes,
        by id or by name.
    identity : optional
        As in ``embed``.
    shape : SHAPE, str or Shape
        How many classes, shots and queries. A word, or an object such as ``FixedShape(way=5)``.
    classes : CLASS_CHOICES, str or Classes
        Which classes. A word, or an object such as ``SiblingClasses(level=1)``.
    taxonomy : optional
        As in ``measure_distances``.
    distances : file, optional
        Distances between classes for coarsity and for classes drawn by it, in place of the taxonomy's: a CSV with the
        classes as first row and first column, or a .npy matrix in the order of the classes.
    instances : INSTANCES, str or Instances
        Which images. A word, or an object such as ``DifficultInstances(features)``.
    suspects : allow or NAME, str or several
        Networks that doubt labels together; no image is drawn whose label they doubt. Repeat for several. ``"allow"``
        draws them too. By default the judges doubt, where there are any. What a person kept (``review_dataset``) is
        drawn, and what a person dropped is not.
    limits : ImageLimits, optional
        Rules for all images as an object, in place of ``query_where``, ``support_where`` and
        ``disjoint_pools``.
    measures : sequence of callables
        ``measure(pool, plan, rows)`` → further columns.
    score : callable, optional
        How "filtered" judges tasks by a method, and how held-out networks are measured; ``longshot.sample``
        brings its own.
    workers : int, at least 1
        Threads; they change no task.
    block : int
        Tasks drawn together; they do not change a byte.
    device, engine, on, gpus_per_worker, retry_failed : optional
        As in ``embed``.
    seed : int, at least 0
        Random seed.
    **settings
        Settings of choices that are named by words, as in ``SampleSettings``; unless given, those of the
        choice's class.

    Returns
    -------
    Testbed
        Frozen and hashed.

    Examples
    --------
    >>> testbed = sample("toybox", tasks=10, way=3, shot=1, query=5, classes="siblings", level=1, split="test")
    >>> len(testbed), len(testbed[0].classes)
    (10, 3)
    >>> hard = sample("toybox", tasks=4, way=3, shot=2, query=5, instances="difficult", judge="pixels")
    >>> hard.table["accuracy_after"].to_pylist() <= hard.table["accuracy_before"].to_pylist()
    True
    """
    check_count("sample", "tasks", tasks, least=1)
    check_count("sample", "seed", seed)
    check_count("sample", "workers", workers, least=1)
    shape, classes, instances = shape or "fixed", classes or "uniform", instances or "uniform"
    choices = {"shape": shape, "classes": classes, "instances": instances}
    check_sampler_settings(settings, **choices, beside=signature(sample).parameters)
    if replay is not None:
        from longshot.tasks.replay import Replay, check_replay

        brought: dict[str, Any] = {"shape": shape, "classes": classes, "splits": splits}
        brought |= {"drop_small": drop_small, "published": published}
        check_replay(brought, settings, split)
    if out is not None:
        claim_testbed(out, force=force)
    if is_url(out):
        from longshot.base import check_writable

        check_writable(str(out))
    opened = _open(dataset, splits, split, identity, taxonomy)
    measured_by = [name for name in ("distance", "reduction") if settings.get(name) is not None]
    if distances is not None and measured_by:
        raise UserError(
            f"{{distances}} says how far apart classes are, {{{measured_by[0]}}} too", "leave one out"
        )
    if published is None:  # a list has an order of its own
        opened = [with_distances(data, distances) for data in opened]
    if settings.get("target_accuracy") is not None:
        from longshot.tasks.dial import check_target

        names = check_target(settings, choices)
        words = {name: value for name, value in settings.items() if name not in DIAL_SETTINGS}
        words |= {
            "classes": classes,
            "drop_small": drop_small,
            "allow_repeats": allow_repeats,
            "device": device,
        }
        words |= {"split": split, "limits": limits, "measures": measures, "score": score, "workers": workers}
        words |= {} if suspects is None else {"suspects": suspects}
        if score is None:
            raise no_scorer("{target_accuracy} is measured")
        return _saved(
            Testbed.concat([_dialled(data, words, settings, names, tasks, seed) for data in opened]),
            out,
            force,
        )
    if published is not None or class_order is not None:
        from longshot.tasks.published_tasks import check_import, read_published

        check_import(published, settings, choices)
        reduction, query = settings.get("reduction"), settings.get("query")
        counting: dict[str, Any] = {"split": split, "reduction": reduction, "copies": settings.get("copies")}
        counting |= {"distances": distances, "query": query, "seed": seed}
        listed = read_published(published or "", opened, class_order, **counting)
        return _saved(listed, out, force)
    word = instances if isinstance(instances, str) and instances in JUDGED else None
    number = (settings.get("candidates") or max(CANDIDATES, tasks)) if word == "filtered" else tasks
    counts: Shape
    class_sampler: Classes
    if replay is None:
        counts = make_shape(shape, settings)
        class_sampler = make_classes(classes, settings, allow_repeats=allow_repeats)
    else:
        counts = class_sampler = Replay.read(replay, split or "", seed, number)
        opened = [counts.bind(data) for data in opened]
    image_limits = make_limits(instances, settings, limits)
    split_name = split and (canonical_split(split) or split)
    facts: dict[str, Any] = {"tasks": tasks, "shape": settings_of(counts), "split": split_name}
    facts |= {"allow_repeats": allow_repeats, **image_limits.settings()}
    alike = cast("AlikeClasses", class_sampler) if class_sampler.name == "alike" else None
    if replay is None and alike is None:
        facts["classes"] = settings_of(class_sampler)
    if out is not None:  # another testbed is told now, not when this one is drawn
        sources = {data.name: data.fingerprint for data in opened}
        claim_testbed(out, {"datasets": sources, "seed": seed, "sampler": facts}, force=force)
    if replay is not None:  # classes and shape are one
        assert isinstance(counts, Replay)
        facts |= {"classes": {"name": counts.name}, "episodes_sha256": counts.episodes_sha256()}
    # Before the bar of the tasks: these have bars of their own. Only the classes that tasks may have are embedded.
    copies = [find_copies(data, settings.get("copies")) for data in opened]
    judged_choice = f"instances:{word}" if word else "classes:alike" if classes == "alike" else None
    networks: list[tuple[list[Judge], list[Judge]]] = [
        ([], [])
        if judged_choice is None
        else open_judges(data, judged_choice, settings, device, _rows_of(data, split))
        for data in opened
    ]
    request = _Request(
        number,
        DrawRecipe(counts, class_sampler, UniformInstances(), (), measures, workers, block, allow_repeats),
        facts,
        image_limits,
        split,
        drop_small,
        seed,
        word == "filtered",
        settings.get("reduction"),
        suspects,
        device,
    )
    testbeds = []
    with progress("sample", total=number * len(opened), unit="tasks") as bar:
        for data, (judges, held_out), found_copies in zip(opened, networks, copies, strict=True):
            beside: dict[str, Any] = {"held_out": held_out, "score": score, "device": device}
            chooser = make_instances(instances, settings, judges=judges, **beside)
            if judged := _judged(chooser):
                chooser = judged.among(_rows_of(data, split), data)
            own = replace(request, copies=found_copies)
            if alike is not None:
                seen = replace(alike, judges=tuple(judges) or alike.judges, device=device)
                seen = seen.with_features(data, _rows_of(data, split))
                facts = {**facts, "classes": settings_of(seen)}
                own = replace(own, recipe=replace(own.recipe, classes=seen), facts=facts)
            if out is not None:
                made = {"classes": facts["classes"], "instances": settings_of(chooser)}
                claim_testbed(out, {"sampler": made}, force=force)
            panel: Sequence[Judge] = judges or getattr(chooser, "panel", ())
            testbed = _draw(own, data, chooser, bar, panel)
            if alike is not None and held_out and word is None:
                testbed = _beside_uniform(testbed, own, data, chooser, (panel, held_out), score, device)
            if word == "filtered":
                testbed = filter_tasks(testbed, data, judges, held_out, tasks, settings, score, device)
                testbed = testbed.with_content({data.name: data})
            testbeds.append(testbed)
    return _saved(Testbed.concat(testbeds), out, force)


def _dialled(
    dataset: Dataset,
    words: dict[str, Any],
    settings: Mapping[str, Any],
    names: Sequence[str],
    tasks: int,
    seed: int,
) -> Testbed:
    """Draw the tasks of one dataset that meet a target accuracy."""

    def sampled(changes: Mapping[str, Any], count: int, own_seed: int) -> Testbed:
        own = {**words, **changes}
        if "suspects" in words:
            own["suspects"] = words["suspects"]
        return sample(dataset, tasks=count, seed=own_seed, **own)

    from longshot.tasks.dial import reach_target

    split = words["split"]
    return reach_target(
        sampled,
        dataset,
        _rows_of(dataset, split),
        settings,
        names,
        tasks=tasks,
        seed=seed,
        classes=len(dataset.split_classes(split)),
        score=words["score"],
        device=words["device"],
    )


@dataclass(frozen=True, eq=False)
class _Request:
    """What is drawn from each dataset."""

    tasks: int
    recipe: DrawRecipe  # without images and pools
    facts: dict[str, Any]  # what a testbed tells of all that
    limits: ImageLimits
    split: str | None
    drop_small: bool
    seed: int
    candidates: bool  # yet to be filtered: most of them are not kept, so their images are not read
    reduction: str | None  # by which coarsity is measured
    suspects: Any  # who doubts labels; None: the judges
    device: str
    copies: tuple[str, CopyGroups | None] = (
        "allow",
        None,
    )  # the rule, and what it keeps apart in this dataset


def _draw(
    request: _Request, dataset: Dataset, instances: Instances, bar: Progress, judges: Sequence[Judge]
) -> Testbed:
    """Draw the tasks of one dataset."""
    shape, classes, split = request.recipe.shape, request.recipe.classes, request.split
    allowed, excluded = _allowed(request, dataset, judges)
    rule, copies = request.copies
    replayed = request.facts["classes"] == {"name": "replay"}
    streams = Streams.of(request.seed, request.tasks, dataset.fingerprint)
    everything, pools, dropped = make_pools(
        dataset,
        shape,
        instances,
        streams,
        limits=request.limits,
        split=split,
        drop_small=request.drop_small,
        allowed=allowed,
        copies=None if replayed else copies,
    )
    coarsity = coarsity_measure(everything, classes, request.reduction)
    measures = (*request.recipe.measures, *filter(None, [coarsity]))
    recipe = replace(request.recipe, instances=instances, pools=pools, measures=measures)
    drawn_tasks = draw(recipe, streams, bar)
    facts = {**request.facts, "instances": settings_of(instances), "dropped_classes": dropped}
    members = dataset.split_classes(split)
    facts["copies"] = (
        straddle_facts(copies, drawn_tasks) if replayed else copy_facts(rule, copies, dataset, members)
    )
    if split is not None and dataset.splits_from is not None:
        facts["splits_from"] = dataset.splits_from  # not the dataset's own: the name alone would not tell
    facts |= taxonomy_facts(dataset, request.reduction)
    facts |= excluded
    if judged := _judged(instances):
        facts["drops"] = judged.drops(drawn_tasks.measured)
    table = to_table(dataset, drawn_tasks)
    used = np.zeros(len(dataset), np.bool_)
    used[drawn_tasks.support.values], used[drawn_tasks.query.values] = True, True
    rows = np.flatnonzero(used)
    content = (
        named_only(len(rows), len(dataset)) if request.candidates else read_content(table, dataset, rows=rows)
    )
    return Testbed.create(
        table,
        datasets={dataset.name: dataset.fingerprint},
        sampler=facts,
        seed=request.seed,
        features=instances.features_hash or getattr(classes, "features_hash", None),
        content={dataset.name: content},
        labels={dataset.name: class_labels(dataset)},
    )


def _allowed(
    request: _Request, dataset: Dataset, judges: Sequence[Judge]
) -> tuple[Bools | None, dict[str, Any]]:
    """Return which images may be drawn [N], None for all, and what a testbed records of those that may not.

    Suspects of a class that would have too few images without them stay in, the least doubted first.
    """
    drops = decided_rows(dataset)[1]
    facts: dict[str, Any] = {"dropped_images": int(drops.sum())} if drops.any() else {}
    if named_networks(request.suspects) and request.suspects != "allow":
        judges = embedded_judges(dataset, request.suspects, _rows_of(dataset, request.split), request.device)
    doubting = [
        judge for judge in judges if judge.features.hash and judge.features.fingerprint == dataset.fingerprint
    ]
    if request.suspects == "allow" or not doubting:
        return ~drops if facts else None, facts
    suspects = find_suspected(dataset, doubting)
    allowed, left_in = ~(suspects.mask | drops), 0
    sizes = np.bincount(dataset.labels[allowed], minlength=len(dataset.class_ids))
    for row in suspects.mislabelled[::-1].tolist():
        if not drops[row] and sizes[dataset.labels[row]] < request.recipe.shape.min_images:
            allowed[row], left_in = True, left_in + 1
            sizes[dataset.labels[row]] += 1
    recorded: dict[str, Any] = {
        **suspects.facts(),
        "networks": sorted({judge.features.backbone for judge in doubting}),
    }
    recorded |= {"mislabelled": recorded["mislabelled"] - left_in, "left_in": left_in}
    return allowed, {**facts, "excluded_suspects": recorded}


def _beside_uniform(
    testbed: Testbed,
    request: _Request,
    dataset: Dataset,
    instances: Instances,
    networks: tuple[Sequence[Judge], Sequence[Judge]],
    score: TaskScorer | None,
    device: str,
) -> Testbed:
    """Measure judges and held-out networks on tasks of look-alikes and on as many of uniform classes."""
    if score is None:
        raise no_scorer("{held_out} is measured")
    recipe = replace(request.recipe, classes=UniformClasses())
    plain = replace(request, recipe=recipe, candidates=True)  # of these tasks only the accuracy is kept
    with progress("uniform", total=request.tasks, unit="tasks") as bar:
        uniform = _draw(plain, dataset, instances, bar, networks[0])
    before, after = (bed.bind(dataset.name, dataset.keys, dataset.fingerprint) for bed in (uniform, testbed))
    parts: tuple[Part, Part] = ("judge", "held out")
    drops = [
        drop
        for part, members in zip(parts, networks, strict=True)
        for drop in measure_drops(part, members, before, after, score, device)
    ]
    return testbed.changed(testbed.table, sampler={**testbed.meta["sampler"], "drops": drops})


def _judged(instances: Instances) -> JudgedInstances | None:
    """Return the sampler if judges choose its supports, else None."""
    if instances.features_hash is None:  # a uniform testbed is drawn without loading what selects
        return None
    from longshot.tasks.difficult import JudgedInstances

    return instances if isinstance(instances, JudgedInstances) else None


def _open(
    dataset: DatasetLike | Sequence[DatasetLike],
    splits: str | Path | None,
    split: str | None,
    identity: str | None,
    taxonomy: TaxonomyLike | None,
) -> list[Dataset]:
    """Open the datasets, each with the wanted split; UserError where one comes twice."""
    if splits is not None and split is None:
        raise UserError(
            f"{{splits:{splits}}} says which classes are which", "say which to draw from with {split:test}"
        )
    several = dataset if isinstance(dataset, Sequence) and not isinstance(dataset, str) else [dataset]
    opened = [open_with_splits(data, splits, identity, taxonomy) for data in several]
    seen: set[str] = set()
    for data in opened:
        if data.fingerprint in seen:
            raise UserError(
                f"Dataset '{data.name}' is given twice; its tasks would be the same: leave one out."
            )
        seen.add(data.fingerprint)
    return opened


def _rows_of(dataset: Dataset, split: str | None) -> Ints:
    """Return the images of the classes of a split."""
    return rows_of_classes(dataset.offsets, dataset.split_classes(split))


def _saved(testbed: Testbed, out: str | Path | None, force: bool) -> Testbed:
    if out is not None:
        testbed.save(out, force=force)
    return testbed
