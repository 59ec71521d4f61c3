"""What the study of domains measured: one run that joins all domains, and its rows as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.core.arrays import Floats, Ints
from longshot.core.files import hash_text
from longshot.evaluation import units
from longshot.evaluation.results import Results
from longshot.evaluation.run_record import add_testbed, new_run, write_run
from longshot.evaluation.stores import testbed_path
from longshot.studies.cross_domain.plan import METHODS
from longshot.studies.engine.rows import backbone_facts, numbers, select_rows
from longshot.testbeds.testbed import Testbed

WITHIN, CROSS = "within-domain", "cross-domain"
OWN, OTHER, UNTRAINED = "own domain", "other domains", "random weights"  # where a network was trained
_FIXED = ("testbed", "testbed_name", "backbone", "method", "seed", "dataset", "setting")


@dataclass(frozen=True)
class DomainScores:
    """One domain of one run, solved for one baseline by one network."""

    setting: str  # WITHIN or CROSS: which tasks
    trained: str  # OWN or OTHER: on what the network was trained
    method: str  # the paper's name
    call: str  # the method as it was called
    testbed: str  # name
    backbone: str  # path of the network


@dataclass(frozen=True, eq=False)
class SettingTasks:
    """The T tasks of a setting over all domains and runs, and every baseline's scores on them."""

    domain: NDArray[np.str_]  # [T]
    way: Ints
    shot: Ints
    normalised: Mapping[tuple[str, str], Floats]  # (trained, method) → [T], (bac − 1/N) / (1 − 1/N)
    accuracy: Mapping[tuple[str, str], Floats]

    def scores(self, trained: str, methods: Sequence[str]) -> Floats:
        """Normalised accuracies side by side, [T, M]."""
        return np.stack([self.normalised[trained, method] for method in methods], axis=1)

    def __len__(self) -> int:
        return len(self.way)


TasksBySetting = Mapping[str, SettingTasks]


def read_tasks(
    results: Results, setting: str, pieces: Sequence[DomainScores], testbeds: Mapping[str, Testbed]
) -> SettingTasks:
    """The rows of a setting, domain after domain, as arrays."""
    table = results.table()
    parts: dict[tuple[str, str], list[pa.Table]] = {}
    for piece in pieces:
        if piece.setting == setting:
            rows = select_rows(table, testbeds[piece.testbed], piece.backbone, piece.call)
            parts.setdefault((piece.trained, piece.method), []).append(rows)
    joined = {key: pa.concat_tables(tables) for key, tables in parts.items()}
    tasks = next(iter(joined.values()))
    return SettingTasks(
        domain=np.array(tasks["dataset"].to_pylist()),
        way=tasks["way"].to_numpy().astype(np.int64),
        shot=np.round(tasks["mean_shot"].to_numpy()).astype(np.int64),
        normalised={key: numbers(rows, "normalized_accuracy") for key, rows in joined.items()},
        accuracy={key: numbers(rows) for key, rows in joined.items()},
    )


def join_runs(
    results: Results, pieces: Sequence[DomainScores], testbeds: Mapping[str, Testbed], seed: int, out: Path
) -> Results:
    """All domains as one run with a testbed per setting, so that reports and comparisons see whole settings.

    Networks are named by what they were trained on: ``own domain`` is one network per domain and baseline. Rows keep
    their numbers; tasks are numbered anew.
    """
    table, run = results.table(), new_run()
    run["methods"], run["sessions"] = results.run["methods"], results.run["sessions"]
    for setting in (WITHIN, CROSS):
        series: dict[tuple[str, str], list[DomainScores]] = {}
        for piece in pieces:
            if piece.setting == setting and not _repeated(piece):
                series.setdefault((piece.trained, piece.method), []).append(piece)
        names = list(dict.fromkeys(piece.testbed for members in series.values() for piece in members))
        joined = Testbed.concat([testbeds[name] for name in names])
        add_testbed(run, setting, joined)
        if not testbed_path(out, joined.content_hash).is_file():
            joined.save(testbed_path(out, joined.content_hash))
        sizes = np.cumsum([0, *(len(testbeds[name]) for name in names)]).tolist()
        starts = dict(zip(names, sizes, strict=False))
        for (trained, method), members in series.items():
            label = UNTRAINED if METHODS[method][0] is None else trained
            cell: dict[str, Any] = {"testbed": joined.content_hash, "backbone": label, "seed": seed}
            cell |= {"method": members[0].call, "units": []}
            for piece in members:
                testbed = testbeds[piece.testbed]
                rows = select_rows(table, testbed, piece.backbone, piece.call)
                unit = _unit(results, piece, rows, joined.content_hash, starts[piece.testbed], label, seed)
                _write(out, unit, rows)
                cell["units"].append(unit.id)
                networks = run["backbones"].setdefault(label, {})
                for fingerprint, facts in backbone_facts(results.run, piece.backbone).items():
                    if fingerprint in testbed.datasets.values():
                        blank = {"dataset": facts["dataset"], "networks": []}
                        entry = networks.setdefault(fingerprint, blank)
                        entry["networks"] += [
                            network for network in facts["networks"] if network not in entry["networks"]
                        ]
            run["cells"].append(cell)
    write_run(out, run)
    return Results(out)


def _repeated(piece: DomainScores) -> bool:
    """What is not trained is the same network in both roles on the within-domain tasks; one of them is enough."""
    return METHODS[piece.method][0] is None and (piece.setting, piece.trained) == (WITHIN, OTHER)


def _unit(
    results: Results, piece: DomainScores, rows: pa.Table, testbed: str, start: int, label: str, seed: int
) -> units.Unit:
    dataset = str(rows["dataset"][0])
    facts = backbone_facts(results.run, piece.backbone).values()
    weights = sorted({str(network["weights_hash"]) for entry in facts for network in entry["networks"]})
    return units.Unit(
        testbed=testbed,
        testbed_name=piece.setting,
        dataset=dataset,
        backbone=label,
        features=hash_text(label, *weights),
        method=piece.call,
        identity=results.run["methods"][piece.call]["identity"],
        setting=str(rows["setting"][0]),
        seed=seed,
        start=start,
        stop=start + rows.num_rows,
    )


def _write(out: Path, unit: units.Unit, rows: pa.Table) -> None:
    if units.part_state(out, unit, with_scores=False) == "done":
        return
    columns = {name: rows[name].to_pylist() for name in units.SCHEMA.names if name not in _FIXED}
    columns["task"] = list(range(unit.start, unit.stop))
    units.write_unit(out, unit, columns, rows["seconds"].to_pylist())
