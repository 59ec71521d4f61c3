"""What the study VTAB+MD sets against what: every side is a row with all that its numbers depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from longshot.base import parameters, parse_call
from longshot.evaluation import backbone_parts
from longshot.studies.engine.comparisons import Comparison, Side
from longshot.studies.vtab_md.networks import ApproachRow, make_rows
from longshot.studies.vtab_md.settings import ComparisonSettings, VtabNetwork, VtabSettings

APPROACH = "approach"
_APART = (
    "network",
    "size",
    "start",
    "steps",
)  # of the options of a training, what stands elsewhere in a side
_TESTBEDS = (
    "max_way",
    "max_query",
    "max_support",
    "support",
    "train",
    "validation",
    "query",
    "block",
    "seed",
)


def vtab_comparisons(settings: VtabSettings) -> list[Comparison]:
    """Those that the settings name; where they name none, all rows that were trained on the same data.

    A comparison of which fewer than two rows are in the study is left out.
    """
    rows = {row.name: row for row in make_rows(settings)}
    named = {
        name: each.model_copy(update={"rows": tuple(row for row in each.rows if row in rows)})
        for name, each in settings.comparisons.items()
    }
    listed = [_comparison(settings, name, each, rows) for name, each in named.items() if len(each.rows) > 1]
    return listed or _by_data(settings, rows)


def unequal_budgets(settings: VtabSettings) -> list[str]:
    """A sentence for every comparison whose sides had other numbers of training steps."""
    sentences = []
    for comparison in vtab_comparisons(settings):
        steps = {side.label: side.settings[APPROACH].get("steps") for side in comparison.sides}
        if len(set(steps.values())) > 1:
            words = ", ".join(f"{row} {_steps_in_words(count)}" for row, count in steps.items())
            sentences.append(f"Budgets differ in '{comparison.name}', as the papers have them: {words}.")
    return sentences


def _steps_in_words(steps: Any) -> str:
    return f"{steps:,} steps" if isinstance(steps, int) else str(steps or "no training")


def _by_data(settings: VtabSettings, rows: Mapping[str, ApproachRow]) -> list[Comparison]:
    groups: dict[str, list[str]] = {}
    for name, row in rows.items():
        groups.setdefault(", ".join(_row_data(settings, row)), []).append(name)
    listed = []
    for data, members in groups.items():
        if len(members) > 1:
            title = f"Approaches trained on {data}" if data else "Approaches on backbones as they are"
            own = ComparisonSettings(factor=APPROACH, rows=tuple(members), budgets="own")
            listed.append(_comparison(settings, title, own, rows))
    return listed


def _comparison(
    settings: VtabSettings, name: str, own: ComparisonSettings, rows: Mapping[str, ApproachRow]
) -> Comparison:
    fewest = min(rows[row].tasks for row in own.rows)  # compared on the episodes that all have
    sides = [_side(settings, rows[row], fewest, inside=own.budgets == "own") for row in own.rows]
    return Comparison(name, own.factor, sides)


def _side(settings: VtabSettings, row: ApproachRow, tasks: int, *, inside: bool) -> Side:
    """A row as data; ``inside``: whether the steps of training belong to the approach, as each paper has them."""
    parts = backbone_parts(row.backbone)
    backbones = [_backbone(settings, part) for part in parts]
    approach = {"backbone": backbones if len(parts) > 1 else backbones[0], "method": _methods(row)}
    steps = _steps(settings, parts[0])
    budget = {} if inside else {"budget": {"steps": steps}}
    if inside:
        approach["steps"] = steps
    testbeds = {"episodes": tasks, **{name: getattr(settings, name) for name in _TESTBEDS}}
    more = {
        APPROACH: approach,
        "data": ", ".join(_row_data(settings, row)) or "none",
        "testbeds": testbeds,
        **budget,
    }
    return Side(row.name, more=more)


def _chain(settings: VtabSettings, name: str) -> list[VtabNetwork]:
    """The network and those that it starts from; none for a backbone that is not trained here."""
    chain: list[VtabNetwork] = []
    while name in settings.networks and len(chain) <= len(settings.networks):
        chain.append(settings.networks[name])
        name = chain[-1].start or ""
    return chain


def _backbone(settings: VtabSettings, name: str) -> dict[str, Any]:
    """Architecture and training of a network; of one that starts from another, that one's too."""
    chain = _chain(settings, name)
    if not chain:
        return {"name": name}
    first = chain[-1].options
    architecture = {**_network(str(first.get("network", "cnn4"))), "size": first.get("size")}
    start = {"start": first["start"]} if "start" in first else {}
    trainings = [
        {
            "algorithm": _algorithm(network.algorithm),
            "episodes": network.episodes,
            "each": network.each,
            **{key: value for key, value in network.options.items() if key not in _APART},
        }
        for network in reversed(chain)
    ]
    numbered = {str(number): training for number, training in enumerate(trainings, 1)}
    return {"network": architecture, **start, "training": numbered}


def _methods(row: ApproachRow) -> dict[str, Any]:
    """The method of a row: one for both kinds of episodes, or one for each with all candidates."""
    if row.vtab == (row.md,):
        return _method(row.vtab[0])
    big = _method(row.vtab[0]) if len(row.vtab) == 1 else list(row.vtab)
    return {"episodes": None if row.md is None else _method(row.md), "big": big}


def _method(call: str) -> dict[str, Any]:
    from longshot.models import is_own_method, method_class

    return _call(call, None if is_own_method(parse_call(call)[0]) else method_class)


def _network(call: str) -> dict[str, Any]:
    from longshot.models import is_own_network, network_class

    return _call(call, network_class if is_own_network(call) else None)


def _algorithm(call: str) -> dict[str, Any]:
    from longshot.training import ALGORITHMS, algorithm_class

    return _call(call, algorithm_class if parse_call(call)[0] in ALGORITHMS else None)


def _call(text: str, load: Callable[[str], type[Any]] | None) -> dict[str, Any]:
    """A call with every default of what it calls, where that is known here."""
    name, settings = parse_call(text)
    defaults = {} if load is None else parameters(load(name).__init__)
    own = {key: value for key, value in defaults.items() if value is not Parameter.empty and key != "size"}
    return {"name": name, **own, **settings}


def _steps(settings: VtabSettings, name: str) -> Any:
    """Steps of all trainings behind a network; words where a training takes those of its recipe, None without one."""
    chain = _chain(settings, name)
    if not chain:
        return None
    steps = [network.options["steps"] for network in chain if network.options.get("steps") is not None]
    if len(steps) == len(chain):
        return sum(steps)
    return f"the recipe's own and {sum(steps):,} steps" if steps else "the recipe's own"


def _row_data(settings: VtabSettings, row: ApproachRow) -> list[str]:
    """What the networks of a row have seen."""
    words: dict[str, None] = {}
    for part in backbone_parts(row.backbone):
        for network in _chain(settings, part):
            words |= dict.fromkeys(network.data)
            words |= dict.fromkeys(f"without {word}" for word in network.without)
    return sorted(words)
