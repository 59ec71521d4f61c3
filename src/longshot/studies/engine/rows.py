"""The rows of a run that belong to one testbed, network and method."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.core.arrays import Floats
from longshot.studies.engine.training import TRAININGS

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed


def select_rows(table: pa.Table, testbed: Testbed, backbone: str, method: str) -> pa.Table:
    """The rows of one testbed, backbone and method by task, wherever the study's folder lay when they were computed.

    A folder that was moved has its networks under two names, and may have the same rows twice; one of each is taken.
    """
    network = _inside_study(backbone)
    same = [name for name in table["backbone"].unique().to_pylist() if _inside_study(name) == network]
    mask = pc.and_(pc.equal(table["testbed"], testbed.content_hash), pc.equal(table["method"], method))
    rows = table.filter(pc.and_(mask, pc.is_in(table["backbone"], pa.array(same, pa.string()))))
    _, first = np.unique(rows["task"].to_numpy(), return_index=True)
    return rows.take(first)


def numbers(rows: pa.Table, column: str = "accuracy") -> Floats:
    """A column of result rows as float64 [T]."""
    values: Floats = rows[column].to_numpy().astype(np.float64)
    return values


def recorded_name(run: Mapping[str, Any], network: str) -> str:
    """What a run calls the network in a folder: networks of equal weights are one, called by the first of them.

    A training may keep the very weights that it started from, and two such trainings end in one network.
    """
    recorded = run.get("backbones", {})
    sidecar = Path(network) / "network.json"
    if any(_inside_study(name) == _inside_study(network) for name in recorded) or not sidecar.is_file():
        return network
    weights = json.loads(sidecar.read_text(encoding="utf-8"))["weights_hash"]
    for name, by_dataset in recorded.items():
        for facts in by_dataset.values():
            if [each.get("weights_hash") for each in facts["networks"]] == [weights]:
                return str(name)
    return network


def backbone_facts(run: Mapping[str, Any], backbone: str) -> dict[str, Any]:
    """What a run says about a backbone, by dataset, wherever the study's folder lay when it was recorded."""
    network = _inside_study(backbone)
    facts: dict[str, Any] = next(
        facts for name, facts in run["backbones"].items() if _inside_study(name) == network
    )
    return facts


def _inside_study(backbone: str) -> str:
    """A backbone without the path of the study whose network it is."""
    from longshot.evaluation.inputs import backbone_parts  # here, so that studies are listed without torch

    return " + ".join(_inside(part) for part in backbone_parts(backbone))


def _inside(backbone: str) -> str:
    parts = Path(backbone).parts
    if TRAININGS not in parts[:-1]:
        return backbone
    return "/".join(parts[len(parts) - 1 - parts[::-1].index(TRAININGS) :])
