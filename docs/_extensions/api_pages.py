"""Pages of the Python interface, made from the docstrings: one for each verb and noun, one for each room."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

from sphinx.application import Sphinx

FOLDER = "reference/api"
ROOMS = {  # room → what its functions are about, those that users call (all that it has, where none are named)
    "longshot.data": (
        "Datasets: register, check, describe and take parts of them.",
        "add_dataset check_dataset class_branches compare_content describe_dataset find_bad image_digests "
        "list_downloads list_formats plan_download take_branch take_rows",
    ),
    "longshot.training": (
        "Training: which algorithms and search spaces there are.",
        "list_algorithms list_spaces",
    ),
    "longshot.competition": ("Competitions: for organisers and participants.", ""),
    "longshot.statistics": (
        "Statistics: arrays in, numbers out.",
        "Calibration PairedComparison ConfusedPair Confusion Correlation CriticalDifference DatasetDifficulty "
        "Drop Interval Rolling Slope Stability benjamini_hochberg block_ranks bootstrap "
        "calibration compare_many compare_paired "
        "class_interval confidences confusion correlation critical_difference dataset_difficulty drops "
        "fewest_tasks holm mean_interval meta_dataset_ranks most_confused normal_interval quantile_bins "
        "ranking_stability rolling_mean sign_flip_test sign_flip_tests slope smallest_p "
        "tasks_needed tasks_to_decide unpaired_difficulty welch wilson",
    ),
}


def write_pages(app: Sphinx) -> None:
    """What ``import longshot`` offers, from the tables that it is made from."""
    import longshot

    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: _page(f"longshot.{name}", "autofunction") for name in longshot._VERBS}
    texts |= {name: _page(f"longshot.{name}", "autoclass") for name in longshot._NOUNS}
    rooms = {room.replace(".", "-"): _room_page(room, *about) for room, about in ROOMS.items()}
    texts["index"] = _index(longshot._VERBS, longshot._NOUNS, rooms)
    for name, text in {**texts, **rooms}.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text("utf-8") != text:  # an unchanged page is not read again
            path.write_text(text, encoding="utf-8")
    for path in folder.glob("*.md"):
        if path.stem not in {*texts, *rooms}:
            path.unlink()


def _directive(kind: str, name: str) -> str:
    members = "\n   :members:" if kind == "autoclass" else ""
    return f"```{{eval-rst}}\n.. {kind}:: {name}{members}\n```\n"


def _page(name: str, kind: str) -> str:
    return f"# {name}\n\n{_directive(kind, name)}"


def _room_page(room: str, text: str, names: str) -> str:
    import longshot

    module = longshot.competition if room == "longshot.competition" else import_module(room)
    parts = [f"# {room}\n\n{text}\n"]
    for name in names.split() or sorted(module.__all__):
        member = getattr(module, name)
        if name in longshot._VERBS or name in longshot._NOUNS:
            continue  # has a page of its own
        if inspect.isclass(member) or inspect.isfunction(member):
            kind = "autoclass" if inspect.isclass(member) else "autofunction"
            parts.append(f"## {name}\n\n{_directive(kind, f'{room}.{name}')}")
    return "\n".join(parts)


def _summary(name: str) -> str:
    import longshot

    text = inspect.getdoc(inspect.unwrap(getattr(longshot, name))) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")


def _index(verbs: tuple[str, ...], nouns: tuple[str, ...], rooms: dict[str, str]) -> str:
    def rows(names: tuple[str, ...]) -> str:
        listed = [f"| [`{name}`]({name}.md) | {_summary(name)} |" for name in names]
        return "\n".join(["| name | |", "|---|---|", *listed])

    room_rows = [f"| [`{room}`]({room.replace('.', '-')}.md) | {text} |" for room, (text, _) in ROOMS.items()]
    listed_rooms = "\n".join(["| room | |", "|---|---|", *room_rows])
    tree = "```{toctree}\n:hidden:\n\n" + "\n".join([*verbs, *nouns, *rooms]) + "\n```\n"
    return (
        "# Python\n\nFor those who write code with Longshot. Made from the docstrings; their examples run in the "
        f"tests.\n\n## Verbs\n\n{rows(verbs)}\n\n## Nouns\n\n{rows(nouns)}\n\n## Rooms\n\n{listed_rooms}\n\n{tree}"
    )


def escape_bars(app: Sphinx, what: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """``|a − b|`` in a docstring is a formula, not a substitution of reStructuredText."""
    for number, line in enumerate(lines):
        if "`" not in line and not line.lstrip().startswith((">>>", "...")):
            lines[number] = line.replace("|", "\\|")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", escape_bars, priority=900)  # after numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
