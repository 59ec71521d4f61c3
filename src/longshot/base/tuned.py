"""Settings in a YAML file: what ``longshot tune`` finds, and ``train`` and ``evaluate`` take in place of a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from longshot.base.errors import UserError
from longshot.base.files import write_text

SUFFIXES = (".yaml", ".yml")
_KEYS = ("method", "algorithm", "train", "network", "story")


@dataclass(frozen=True)
class Tuned:
    """Calls and settings: a ``method`` to evaluate with, an ``algorithm`` and ``train`` settings to train with."""

    method: str | None = None
    algorithm: str | None = None
    train: Mapping[str, Any] = field(default_factory=dict)  # fields of training's Settings
    network: str | None = None  # folder of the network that was trained with them
    story: Mapping[str, Any] = field(default_factory=dict)  # how it was found, for people


def is_tuned(name: str) -> bool:
    """Whether a name on the command line is such a file."""
    return name.endswith(SUFFIXES)


def write_tuned(path: str | Path, tuned: Tuned) -> None:
    """Write the file, whole or not at all; what is empty is left out."""
    fields = {key: getattr(tuned, key) for key in _KEYS}
    filled = {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in fields.items() if value
    }
    write_text(path, yaml.safe_dump(filled, sort_keys=False, allow_unicode=True, width=120))


def read_tuned(path: str | Path) -> Tuned:
    """Read such a file; UserError where it is missing or holds something else."""
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"The settings {path} cannot be read: {error.strerror or error}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"The settings {path} are not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no settings; they look like 'method: protonet(distance=\"cosine\")'.")
    unknown = [key for key in values if key not in _KEYS]
    if unknown:
        raise UserError(f"{path} says '{unknown[0]}', which means nothing here; it takes {', '.join(_KEYS)}.")
    for key in ("train", "story"):
        if not isinstance(values.get(key, {}), dict):
            raise UserError(f"'{key}' in {path} must be a list of 'name: value' lines.")
    for key in ("method", "algorithm", "network"):
        if not isinstance(values.get(key, ""), str):
            raise UserError(f"'{key}' in {path} must be a text, as in protonet(distance=\"cosine\").")
    return Tuned(**values)


def tuned_method(path: str | Path) -> str:
    """The method's call in the file."""
    tuned = read_tuned(path)
    if tuned.method is None:
        raise UserError(f"{path} names no method; add a line such as 'method: protonet'.")
    return tuned.method


def tuned_training(path: str | Path) -> tuple[str, dict[str, Any]]:
    """The algorithm's call in the file and the settings of training."""
    tuned = read_tuned(path)
    if tuned.algorithm is None:
        raise UserError(f"{path} names no algorithm; add a line such as 'algorithm: protonet(way=20)'.")
    return tuned.algorithm, dict(tuned.train)
