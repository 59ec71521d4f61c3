"""``longshot.doctor(on=…)``: the nodes of a cluster, what they have, and whether they would compute the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from longshot.api.doctor import make_row
from longshot.base import is_writable, living, node_facts, node_name, release_executors
from longshot.data import Dataset, as_dataset, read_digests

_PROBED = 4  # images that every node is to read


def look_at_cluster(
    on: str, dataset: Dataset | str | Path | None, out: str | Path | None
) -> list[dict[str, Any]]:
    """One row for the cluster, one per node, and what can be read and written."""
    from longshot.base import join

    release_executors()  # their workers hold processors that those who answer need
    opened = join(on, check=False)
    try:
        return _look(opened, on, dataset, out)
    finally:
        opened.close()


def _look(
    opened: Any, on: str, dataset: Dataset | str | Path | None, out: str | Path | None
) -> list[dict[str, Any]]:
    from longshot.base import compare

    rows = [make_row("cluster", "ok", f"{on}: {opened.words()}, room for {opened.slots} workers")]
    here = node_facts()
    answers = opened.everywhere(node_facts)
    for node in living().values():
        name = node_name(node)
        if name not in answers:
            rows.append(make_row(f"node {name}", "ok", "no room for a worker: it computes nothing"))
            continue
        facts = answers[name]
        problem = compare(here, facts)
        if not isinstance(facts, dict):
            rows.append(make_row(f"node {name}", "refused", problem))
            continue
        has = node["Resources"]
        gpus = f", {has['GPU']:g} GPUs" if has.get("GPU") else ""
        versions = f"longshot {facts['longshot']} ({facts['source']}), torch {facts['torch']}, Python {facts['python']}"
        detail = (
            f"{has.get('CPU', 0):g} processors ({facts['processor']}, computes with {facts['capability']}){gpus}, "
            f"{has.get('memory', 0) / 2**30:.0f} GiB memory, object store "
            f"{has.get('object_store_memory', 0) / 2**30:.1f} GiB; {versions}; cache {facts['cache']}"
        )
        rows.append(
            make_row(
                f"node {name}", "refused" if problem else "ok", f"{problem}; {detail}" if problem else detail
            )
        )
    if dataset is not None:
        rows += _reads(opened, as_dataset(dataset))
    if out is not None:
        writable = is_writable(Path(out))
        rows.append(
            make_row(
                "results",
                "ok" if writable else "refused",
                f"{out} can{'' if writable else 'not'} be written here, where all results are written",
            )
        )
    return rows


def _reads(opened: Any, dataset: Dataset) -> list[dict[str, Any]]:
    """One row per node: whether it reads the same images."""
    probed = np.unique(np.linspace(0, len(dataset) - 1, _PROBED).astype(np.int64))
    here = read_digests(dataset.store, probed)
    rows = []
    for name, there in opened.everywhere(read_digests, dataset.store, probed).items():
        if there == here:
            state, detail = "ok", f"reads '{dataset.name}' itself"
        elif isinstance(there, list) and not any(digest.startswith("unreadable") for digest in there):
            state, detail = (
                "other images",
                f"has other images under these names; '{dataset.name}' will be sent along",
            )
        else:
            state, detail = "cannot read", f"cannot read '{dataset.name}'; its images will be sent along"
        rows.append(make_row(f"data on {name}", state, detail))
    return rows
