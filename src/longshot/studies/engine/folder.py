"""The folder of a study: study.json tells what it is, steps that are done are not done again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from longshot.core.errors import UserError
from longshot.core.files import hash_json, write_json
from longshot.studies.engine.presets import Study

FORMAT = 1
# What may change from run to run in one folder: the run is extended, tables and figures follow.
_FREE = ("methods", "backbone", "window")


class Folder:
    """Opens or makes the folder ``path`` for a study on a dataset; UserError when it holds something else."""

    def __init__(self, path: Path, study: Study, dataset: Mapping[str, str]) -> None:
        self.path = path
        self.did: list[dict[str, str]] = []
        facts = {
            "format": FORMAT,
            "study": study.name,
            "recipe": study.recipe,
            "version": study.version,
            "paper": study.paper,
            "dataset": dict(dataset),
        }
        known = self._read()
        if known is not None:
            before = {
                **known["settings"],
                **{key: known.get(key) for key in ("recipe", "version", "dataset")},
            }
            now = {**study.settings, **{key: facts[key] for key in ("recipe", "version", "dataset")}}
            differs = [key for key in now if key not in _FREE and before.get(key) != now[key]]
            if differs:
                raise UserError(
                    f"{path} holds a study with {differs[0]} = {_short(before.get(differs[0]))}, now it is "
                    f"{_short(now[differs[0]])}; choose another folder with -o."
                )
        self.facts: dict[str, Any] = {
            **facts,
            "settings": study.settings,
            "notes": [],
            "steps": {} if known is None else known["steps"],
        }

    def _read(self) -> dict[str, Any] | None:
        """study.json of the folder, None for a new or empty one."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(
                f"{self.path} is a file, but a study goes into a folder; choose another place with -o."
            )
        file = self.path / "study.json"
        if not file.exists():
            others = sorted(p.name for p in self.path.iterdir()) if self.path.is_dir() else []
            if others:
                raise UserError(
                    f"{self.path} holds {len(others)} other files, such as '{others[0]}', and no study.json; choose an "
                    "empty or new folder with -o."
                )
            return None
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{file} cannot be read: {error}; choose another folder with -o.") from error
        if (
            not isinstance(known, dict)
            or known.get("format") != FORMAT
            or not {"settings", "steps"} <= set(known)
        ):
            raise UserError(f"{file} is not a study of format {FORMAT}; choose another folder with -o.")
        return known

    def save(self) -> None:
        """Write study.json."""
        write_json(self.path / "study.json", self.facts)

    def step(self, name: str, inputs: Any, files: Sequence[Path], work: Callable[[], None]) -> None:
        """Do ``work`` unless it was done with the same inputs and its files are there."""
        digest = hash_json(inputs)
        known = self.facts["steps"].get(name)
        if known == digest and all(file.is_file() for file in files):
            self.log(name, "kept")
            return
        work()
        self.facts["steps"][name] = digest
        self.save()
        self.log(name, "written")

    def log(self, name: str, what: str) -> None:
        """Remember what became of a step."""
        self.did.append({"step": name, "did": what})
        print(f"{name}: {what}", file=sys.stderr, flush=True)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:119]}…"
