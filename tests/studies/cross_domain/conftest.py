"""Planted scores of the study of domains, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from longshot.studies import get_study, layered
from longshot.studies.cross_domain.cross_domain_cells import (
    CONDITIONS,
    CROSS,
    FIXED,
    WITHIN,
    Condition,
    DomainScores,
    KindTasks,
)
from longshot.studies.cross_domain.cross_domain_plan import BASELINES, CrossDomainSettings

Planted = Callable[..., Any]


@pytest.fixture
def settings_of() -> Callable[..., CrossDomainSettings]:
    def made(*changes: str, preset: str = "cross-domain") -> CrossDomainSettings:
        settings = layered(get_study(preset), None, changes).settings
        assert isinstance(settings, CrossDomainSettings)
        return settings

    return made


@pytest.fixture
def planted() -> Planted:
    """``planted({(condition, start, method): scores})``: a lab that has measured just that.

    Scores [T] are those of a cell, or one number around which tasks alternate by 0.01. ``way``, ``shot`` and
    ``domain`` [T] are those of all kinds of tasks.
    """

    def made(
        cells: Mapping[tuple[Condition, str, str], Any],
        *,
        tasks: int = 40,
        way: Any = 5,
        shot: Any = 5,
        domain: Any = None,
    ) -> Any:
        wave = 0.01 * np.where(np.arange(tasks) % 2, -1.0, 1.0)
        values = {
            key: np.asarray(level, float) if np.ndim(level) else level + wave for key, level in cells.items()
        }
        ways, shots = (np.broadcast_to(np.asarray(each), tasks).astype(np.int64) for each in (way, shot))
        names = np.array(domain) if domain is not None else np.repeat(["a", "b"], tasks // 2)
        kinds = {kind: KindTasks(names, ways, shots) for kind in (WITHIN, FIXED, CROSS)}
        methods = [name for name in BASELINES if any(key[2] == name for key in values)]
        kind = {name: "transductive" if name == "metadelta" else "inductive" for name in methods}
        scores = DomainScores(kinds, values, kind)
        starts = tuple(dict.fromkeys(key[1] for key in values))
        return SimpleNamespace(
            scores=scores,
            settings=SimpleNamespace(starts=starts, methods=tuple(methods)),
            once=lambda name, make: scores,
            data=SimpleNamespace(dataset=SimpleNamespace(name="all")),
        )

    return made


@pytest.fixture
def everywhere() -> Callable[..., dict[tuple[Condition, str, str], Any]]:
    """``everywhere({(start, method): level})``: the same level under every condition."""

    def made(levels: Mapping[tuple[str, str], Any]) -> dict[tuple[Condition, str, str], Any]:
        return {(condition, *key): level for condition in CONDITIONS for key, level in levels.items()}

    return made
