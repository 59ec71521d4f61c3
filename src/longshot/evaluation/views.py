"""Results to look at: the summary as text, HTML and figure, what must be said beside it, and pictures for pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from longshot.base import UserError, count, html_table, read_record
from longshot.evaluation.metrics import METRICS
from longshot.evaluation.run_record import LEVELS, RunLeak
from longshot.statistics import plus_minus, widths_differ
from longshot.tasks import is_judge, judges_of

if TYPE_CHECKING:
    from PIL.Image import Image

    from longshot.data import Dataset
    from longshot.evaluation.results import Results

    FindImages: TypeAlias = Callable[[str, Sequence[str]], list[Image]]

_UNNOTICED = "so that other pictures under these names would go unnoticed"


def summary_rows(results: Results) -> list[dict[str, Any]]:
    """Return the summary as rows for notebooks: every mean with half its interval, judges and leaks marked."""
    leaks, judging = leaks_in(results.run), judges_in(results.run)
    rows = []
    for record in results.summary():
        cell = (record["testbed_hash"], record["backbone"])
        wider = (
            record["ci95_over_classes"]
            if widths_differ(record["ci95"], record["ci95_over_classes"])
            else None
        )
        accuracy = plus_minus(record["accuracy"], record["ci95"], digits=2, over_classes=wider)
        marks = ("†" if cell in judging else "", leaks[cell].mark if cell in leaks else "")
        rows.append(
            {
                **{
                    name: record[name]
                    for name in ("testbed", "backbone", "method", "setting", "seed", "tasks")
                },
                "accuracy %": " ".join(filter(None, (accuracy, *marks))),
                **{
                    facts.title: with_half(record, name)
                    for name, facts in METRICS.items()
                    if name != "accuracy" and facts.unit == "points"
                },
            }
        )
    return rows


def with_half(record: Mapping[str, Any], name: str) -> str:
    """Return a share of a record of ``Results.summary`` in per cent with half its 95 % interval.

    >>> with_half({"accuracy": 0.9125, "accuracy_ci95": [0.9, 0.925]}, "accuracy")
    '91.25 ± 1.25'
    """
    ends = record[f"{name}_ci95"]
    return plus_minus(record[name], None if ends is None else (ends[1] - ends[0]) / 2, digits=2)


class Records(list[dict[str, Any]]):
    """Rows with the same keys, which notebooks show as a table.

    >>> Records([{"class": "a", "accuracy": 0.5}])
    <1 row: class, accuracy>
    """

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``; UserError where pandas is not installed."""
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise UserError(
                "A data frame needs pandas, which is not installed", "pip install pandas"
            ) from error
        return pd.DataFrame(list(self))

    def __repr__(self) -> str:
        columns = ", ".join(self[0]) if self else "none"
        return f"<{count(len(self), 'row')}: {columns}>"

    def _repr_html_(self) -> str:
        return html_table([{key: _short(value) for key, value in record.items()} for record in self])


def _short(value: Any) -> str:
    if isinstance(value, list):
        return " – ".join(map(_short, value))
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


# A network that chose a testbed's images says nothing fair about it: tables show its numbers and rank it never. There
# is one rule for all of them, and it goes by weights, not by labels.


def judges_in(run: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return (content hash of a testbed, backbone) for each backbone that chose images of the testbed.

    At any size of pictures, and so is a network that started from the weights of one that chose.

    Parameters
    ----------
    run : mapping
        A run.json: testbeds with their metadata, backbones with their networks, lineage. Of several networks side by
        side one that judged is enough.
    """
    return frozenset(_choices_of_judges(run))


def _choices_of_judges(run: Mapping[str, Any]) -> dict[tuple[str, str], list[str]]:
    """Return what each judge chose, ["classes", "images"], by content hash of the testbed and backbone."""
    judging = {}
    for content_hash, meta in run.get("testbeds", {}).items():
        marks = judges_of(meta)
        for backbone, by_dataset in run.get("backbones", {}).items() if marks else ():
            networks = [network for story in by_dataset.values() for network in story.get("networks", ())]
            lineage = run.get("lineage", {}).get(backbone, ())
            own = [mark for mark in marks if any(is_judge([mark], each) for each in (*networks, *lineage))]
            if own:
                judging[content_hash, backbone] = sorted({mark.chose for mark in own})
    return judging


def say_judges(run: Mapping[str, Any]) -> list[str]:
    """Write one sentence per testbed that networks of the run chose classes or images of."""
    by_testbed: dict[tuple[str, str], list[str]] = {}
    for (content_hash, backbone), chose in sorted(_choices_of_judges(run).items()):
        started = " (or what it started from)" if len(run.get("lineage", {}).get(backbone, ())) > 1 else ""
        key = str(run["testbeds"][content_hash]["name"]), " and ".join(chose)
        by_testbed.setdefault(key, []).append(backbone + started)
    return [
        f"{' and '.join(backbones)} chose the {chose} of '{name}': "
        f"{'its' if len(backbones) == 1 else 'their'} numbers there are not to be ranked"
        for (name, chose), backbones in by_testbed.items()
    ]


# What training saw of a testbed: one mark and one footnote, wherever the number stands.

LEAK = "‡"


class Leak(NamedTuple):
    """What a network saw of a testbed in training: ``fact`` in words, ``note`` with the accuracies without it."""

    mark: str  # in brackets where classes are all that is known to be shared
    images: int
    fact: str
    note: str


def leaks_in(run: Mapping[str, Any]) -> dict[tuple[str, str], Leak]:
    """Return (content hash of a testbed, backbone) → what training saw of the testbed, where it saw any.

    Parameters
    ----------
    run : mapping
        A run.json, with what ``evaluate`` entered under ``upstream`` and in its cells.
    """
    leaks = {}
    for backbone, by_testbed in run.get("upstream", {}).items():
        for content_hash, entries in by_testbed.items():
            if content_hash not in run["testbeds"] or not any(e["images"] or e["classes"] for e in entries):
                continue
            cells = [c for c in run["cells"] if (c["testbed"], c["backbone"]) == (content_hash, backbone)]
            records = [read_record(RunLeak, entry, "The record of a leak") for entry in entries]
            name = str(run["testbeds"][content_hash]["name"])
            leaks[content_hash, backbone] = _describe_leak(records, backbone, name, cells)
    return leaks


def say_leaks(run: Mapping[str, Any]) -> list[str]:
    """List the footnote of every network that saw something of a testbed in training."""
    return [leak.note for leak in leaks_in(run).values()]


def _describe_leak(
    entries: Sequence[RunLeak], backbone: str, testbed: str, cells: Sequence[Mapping[str, Any]]
) -> Leak:
    """Describe the entries of all datasets of a testbed in words, with the accuracies of the cells."""
    names = ("images", "of_images", "classes", "of_classes")
    images, of_images, classes, of_classes = (sum(getattr(e, name) or 0 for e in entries) for name in names)
    first, upstream = entries[0], entries[0].upstream or "unknown data"
    if not images:
        among = f"the {first.trained_classes:,} that" if first.trained_classes else "those that"
        unknown = f"; whether its images are among those of {', '.join(first.not_known)} is not known"
        fact = (
            f"{classes:,} of the {of_classes:,} classes of '{testbed}' are among {among} {backbone} was trained on "
            f"({upstream}){unknown if first.not_known else ''}"
        )
        return Leak(f"({LEAK})", 0, fact, f"({LEAK}) {fact}")
    levels = [(words, sum(e.levels.get(level, 0) for e in entries)) for level, words in LEVELS.items()]
    seen_as = ", ".join(f"{number:,} {words}" for words, number in levels if number)
    fact = (
        f"{backbone} was trained on {images:,} of the {of_images:,} images of '{testbed}' "
        f"({': '.join(filter(None, (upstream, seen_as)))}) and on {classes:,} of its {of_classes:,} classes"
    )
    return Leak(LEAK, images, fact, f"{LEAK} {fact}. {'; '.join(map(_say_unleaked, cells))}")


def _say_unleaked(cell: Mapping[str, Any]) -> str:
    """Describe a cell's accuracy with and without what training saw."""
    method = cell["method"] + (f", seed {cell['seed']}" if cell["seed"] else "")
    if not cell.get("unleaked"):
        return f"{method}: without them not known before the evaluation is finished"
    parts = [f"{method}: {_percent(cell['unleaked']['all'])} in all"]
    for key, words in (("queries", "on queries not seen"), ("tasks", "in tasks with nothing seen")):
        part = cell["unleaked"][key]
        parts.append(f"{_percent(part)} {words} ({part['n']:,} of {part['of']:,})")
    return ", ".join(parts)


def _percent(part: Mapping[str, Any]) -> str:
    """Return a mean with half its interval; a dash where there is none.

    >>> _percent({"mean": 0.5, "half": 0.025}), _percent({"mean": None, "half": None})
    ('50.00 ± 2.50 %', '–')
    """
    return "–" if part["mean"] is None else f"{plus_minus(part['mean'], part['half'], digits=2)} %"


def names_only(run: Mapping[str, Any]) -> list[str]:
    """Write one sentence for each testbed, and each network's view of a dataset, compared by name only.

    Parameters
    ----------
    run : mapping
        The record of a run, ``Results.run``.

    Returns
    -------
    list of str
        Empty where everything was compared by its bytes.

    Examples
    --------
    >>> bed = {"name": "hard", "content": {"birds": {"identity": "names"}}, "datasets": {"birds": "f1"}}
    >>> names_only({"testbeds": {"h": bed}, "backbones": {}})
    ['identity of the testbed hard: names only of birds, so that other pictures under these names would go unnoticed']
    """
    lines, by_content = [], set()
    for bed in run["testbeds"].values():
        names = []
        for dataset, identity in _identities(bed):
            if identity == "names":
                names.append(dataset)
            else:
                by_content.add(str(_mapping(bed.get("datasets")).get(dataset)))
        if names:
            lines.append(
                f"identity of the testbed {bed['name']}: names only of {', '.join(names)}, {_UNNOTICED}"
            )
    for label, views in run["backbones"].items():
        datasets = sorted(
            str(view.get("dataset"))
            for fingerprint, view in views.items()
            if fingerprint in by_content and _by_names(view)
        )
        if datasets:
            lines.append(
                f"identity of the images behind '{label}': names only of {', '.join(datasets)}, {_UNNOTICED}"
            )
    return lines


def _identities(bed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (dataset, identity) of a testbed's record; folders of earlier versions say nothing."""
    for dataset, entry in sorted(_mapping(bed.get("content")).items()):
        yield dataset, str(_mapping(entry).get("identity"))


def _by_names(view: Mapping[str, Any]) -> bool:
    networks = view.get("networks")
    return isinstance(networks, list | tuple) and any(
        _mapping(network).get("images") == "names" for network in networks
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def find_images(
    fingerprints: Mapping[str, Sequence[str]] | None = None,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
) -> FindImages:
    """Return ``images(dataset_name, keys)`` for a page, which opens a dataset at its first picture.

    Parameters
    ----------
    fingerprints : mapping, optional
        Dataset name → the fingerprints it stands for in the testbeds shown; they are looked up in the registry. A name
        that is not here is opened as a registered name.
    datasets : mapping, optional
        Dataset name → dataset or path; comes before the registry.

    Returns
    -------
    callable
        ``images(name, keys)`` gives a list of PIL images, and a UserError when the dataset is nowhere.
    """
    opened: dict[str, list[Dataset]] = {}

    def open_all(name: str) -> list[Dataset]:
        from longshot.data import as_dataset, open_dataset, registry

        if datasets and name in datasets:
            return [as_dataset(datasets[name])]
        if fingerprints and name in fingerprints:
            return [registry.reopen_dataset(fingerprint, name) for fingerprint in fingerprints[name]]
        return [open_dataset(name)]

    def images(name: str, keys: Sequence[str]) -> list[Image]:
        import pyarrow as pa

        if name not in opened:
            opened[name] = open_all(name)
        problem = UserError(f"The dataset '{name}' is not known", f"pass {{datasets:{name}=PATH}}")
        for dataset in opened[name]:
            try:
                rows = dataset.find_rows(pa.array(keys, pa.string()))
            except UserError as error:
                problem = error
                continue
            return [dataset.image(int(row)) for row in rows]
        raise problem

    return images
