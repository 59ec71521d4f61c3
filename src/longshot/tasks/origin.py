"""Where a testbed comes from: the datasets behind it, the testbeds that it joins, and in words how it was drawn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from longshot.base import Ragged, TaskRows, UserError
from longshot.tasks import columns
from longshot.tasks.content import union

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.tasks.testbed import Testbed


def open_datasets(
    testbed: Testbed, datasets: Mapping[str, Dataset | str | Path] | None = None, *, check: bool = True
) -> dict[str, Dataset]:
    """The datasets of a testbed by name: the given ones, the others through the registry.

    Names and bytes of the images in use are checked, unless ``check`` is False: then the caller finds out by itself
    what differs.
    """
    from longshot.data import as_dataset

    datasets = datasets or {}
    check_names(testbed, datasets)
    opened: dict[str, Dataset] = {}
    for name in testbed.datasets:
        source = datasets.get(name)
        if source is None:
            opened[name] = find_dataset(testbed, name)
        else:
            opened[name] = as_dataset(source)
        if testbed.content[name].identity == "names":  # so does all that is made with the testbed
            opened[name] = opened[name].with_identity("names")
        if check:
            testbed.bind(name, opened[name].keys, opened[name].fingerprint)  # says what differs
            testbed.check_content(name, opened[name])
    return opened


def find_dataset(testbed: Testbed, name: str) -> Dataset:
    """A dataset of the testbed as this machine remembers it: among copies, one with the bytes that it was drawn from.

    Where there is none, another copy, or what lies there now: binding and ``check_content`` say what differs.
    """
    from longshot.data import find

    def has_the_bytes(dataset: Dataset) -> bool:
        try:
            testbed.check_content(name, dataset)
        except UserError:
            return False
        return True

    by_names = testbed.content[name].identity == "names"
    return find(
        testbed.datasets[name], name, or_changed=True, has_the_bytes=None if by_names else has_the_bytes
    )


def check_names(testbed: Testbed, names: Iterable[str]) -> None:
    """UserError when a name is none of the testbed's datasets."""
    unknown = set(names) - set(testbed.datasets)
    if unknown:
        raise UserError(
            f"The testbed has no dataset '{min(unknown)}'; it has: {', '.join(testbed.datasets)}."
        )


def bind(testbed: Testbed, name: str, keys: pa.Array, fingerprint: str) -> TaskRows:
    """See :meth:`Testbed.bind`."""
    check_names(testbed, [name])
    positions = np.flatnonzero(columns.of_dataset(testbed.table, name))
    rows: dict[str, Ragged] = {}
    missing: set[str] = set()
    for part in ("support", "query"):
        picked = columns.ragged(testbed.table, part).take(positions)
        names = columns.dictionary(testbed.table, part)
        values = columns.places_among(testbed.table, part, keys)[picked.values]
        absent = picked.values[values < 0]
        missing.update(names.take(pa.array(np.unique(absent))).to_pylist())
        rows[part] = picked.with_values(values)
    if fingerprint != testbed.datasets[name]:
        raise _mismatch(testbed, name, fingerprint, missing)
    if missing:
        raise UserError(
            f"{len(missing):,} images of the testbed are not among the {len(keys):,} given keys of '{name}', for "
            f"example '{min(missing)}'; bind it to the whole dataset."
        )
    return TaskRows(
        tasks=positions,
        ways=testbed.table.column("way").to_numpy().astype(np.int64)[positions],
        support=rows["support"],
        support_label=columns.ragged(testbed.table, "support_label").take(positions),
        query=rows["query"],
        query_label=columns.ragged(testbed.table, "query_label").take(positions),
    )


def _mismatch(testbed: Testbed, name: str, fingerprint: str, missing: set[str]) -> UserError:
    difference = (
        "all images of the testbed are still there, but other images or classes were added or removed"
    )
    if missing:
        difference = (
            f"{len(missing):,} of the testbed's images are no longer there, for example '{min(missing)}'"
        )
    return UserError(
        f"The dataset '{name}' has changed since the testbed was drawn (fingerprint {fingerprint[:12]}…, the "
        f"testbed has {testbed.datasets[name][:12]}…): {difference}",
        f"give the original with {{datasets:{name}=PATH}} or draw the testbed again with {{sample()}}",
    )


def concat(testbeds: Sequence[Testbed]) -> Testbed:
    """See :meth:`Testbed.concat`."""
    from longshot.tasks.testbed import Testbed

    if not testbeds:
        raise UserError("There is no testbed to join; give at least one.")
    if len(testbeds) == 1:
        return testbeds[0]
    datasets: dict[str, str] = {}
    for bed in testbeds:
        for name, fingerprint in bed.datasets.items():
            if datasets.setdefault(name, fingerprint) != fingerprint:
                raise UserError(
                    f"Two different datasets are both called '{name}' (fingerprints "
                    f"{datasets[name][:12]}… and "
                    f"{fingerprint[:12]}…); give one of them another name."
                )
    table = pa.concat_tables([bed.table for bed in testbeds], promote_options="permissive")
    table = table.set_column(0, "task", pa.array(np.arange(len(table))))
    content = {
        name: union(name, [(bed.keys(name), bed.content[name]) for bed in testbeds if name in bed.content])
        for name in datasets
    }
    origins = [{k: bed.meta[k] for k in ("sampler", "seed", "features")} for bed in testbeds]
    alike = all(origin == origins[0] for origin in origins)
    features = {bed.meta["features"] for bed in testbeds}
    return Testbed.create(
        table,
        datasets=datasets,
        sampler=origins[0]["sampler"] if alike else {"concat": origins},
        seed=origins[0]["seed"] if len({origin["seed"] for origin in origins}) == 1 else None,
        features=features.pop() if len(features) == 1 else None,
        content=content,
        labels={
            name: {c: x for bed in testbeds for c, x in bed.labels.get(name, {}).items()} for name in datasets
        },
    )


def sampler_parts(sampler: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The settings of every testbed that was joined into one; of one that was not, its own."""
    return [part["sampler"] for part in sampler["concat"]] if "concat" in sampler else [sampler]


def sampler_settings(sampler: Any) -> list[tuple[str, str]]:
    """Setting and value as words, the three choices first: ``("shape", "fixed(query=10, shot=5, way=5)")``."""
    settings = dict(sampler) if isinstance(sampler, dict) else {}
    first = ("shape", "classes", "instances")
    order = sorted(settings, key=lambda key: (first.index(key) if key in first else len(first), key))
    return [(key, _say_setting(settings[key])) for key in order if key not in ("concat", "drops")]


def say_sampler(sampler: Any) -> str:
    """How tasks were drawn, in one line; what is off, none or 0 is left out."""
    if isinstance(sampler, dict) and "concat" in sampler:
        parts = [f"{say_sampler(part['sampler'])}, seed {part['seed']}" for part in sampler["concat"]]
        return f"of {len(parts)} testbeds: " + "; ".join(
            f"({number}) {part}" for number, part in enumerate(parts, 1)
        )
    phrases = [
        f"{key} {value}" for key, value in sampler_settings(sampler) if value not in ("none", "false", "0")
    ]
    return ", ".join(phrases) or "unknown"


def _say_setting(value: Any) -> str:
    """``fixed(query=10, shot=5, way=5)`` for a choice with a name, JSON for anything else."""
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        inner = ", ".join(f"{key}={_say_value(key, v)}" for key, v in value.items() if key != "name")
        return f"{value['name']}({inner})" if inner else value["name"]
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _say_value(key: str, value: Any) -> str:
    """JSON; judges by their networks and methods alone."""
    if key == "judged_by":
        return " and ".join(f"{judge['backbone']}:{judge['method']}" for judge in value)
    return json.dumps(value, ensure_ascii=False)
