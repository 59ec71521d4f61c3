"""Fact sheets: what a team says of its method, as a few named texts in YAML or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import yaml

from longshot.arena.inside.shown import readable
from longshot.arena.settings import FACT_FIELDS
from longshot.base import UserError

PRIVATE = ("authors", "contact", "email")  # not shown beside a pseudonym
LARGEST = 64 << 10  # bytes of a sheet
MOST = 40  # fields

FactSheet: TypeAlias = dict[str, str]


def read_sheet(path: Path) -> FactSheet:
    """A team's file; UserError when it is no list of named texts."""
    if not path.is_file():
        raise UserError(
            f"There is no fact sheet at {path}; give a YAML or JSON file with fields such as 'title'."
        )
    if path.stat().st_size > LARGEST:
        raise UserError(
            f"The fact sheet {path} has {path.stat().st_size >> 10:,} KB, at most {LARGEST >> 10} are allowed."
        )
    try:
        sheet = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # undecodable bytes are a ValueError
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"The fact sheet {path} is neither YAML nor JSON: {reason}.") from error
    if not isinstance(sheet, dict) or not sheet or len(sheet) > MOST:
        content = f"{len(sheet)} fields" if isinstance(sheet, dict) else type(sheet).__name__
        raise UserError(
            f"The fact sheet {path} holds {content}; 1 to {MOST} lines such as 'title: Nearest means' are needed."
        )
    return {str(name)[:100]: _text(value, str(name), path) for name, value in sheet.items()}


def parse_sheet(fields: Mapping[str, str]) -> FactSheet:
    """A sheet that came over the network, held to the rules of one that came as a file."""
    size = sum(len(f"{name}{text}".encode("utf-8", "surrogatepass")) for name, text in fields.items())
    if not 1 <= len(fields) <= MOST or size > LARGEST:
        raise UserError(
            f"The fact sheet has {len(fields)} fields and {size / 1024:,.0f} KB; 1 to {MOST} fields and at most "
            f"{LARGEST >> 10} KB are allowed."
        )
    return {readable(name)[:100]: readable(text).strip() for name, text in fields.items()}


def _text(value: object, name: str, path: Path) -> str:
    """A plain value, or a list of them on one line."""
    texts = value if isinstance(value, list) else [value]
    if any(isinstance(text, dict | list) for text in texts):
        raise UserError(
            f"The field '{name[:100]}' of the fact sheet {path} holds more than a text; write a text."
        )
    return ", ".join("" if text is None else str(text).strip() for text in texts)


def dump(sheet: Mapping[str, str]) -> str:
    """The sheet as it is stored."""
    return json.dumps(dict(sheet), ensure_ascii=False)


def stored(text: str | None) -> FactSheet:
    """A sheet as it was stored; a text that is no sheet counts as its summary."""
    if not text:
        return {}
    try:
        sheet = json.loads(text)
    except ValueError:
        sheet = text
    return (
        {str(key): str(value) for key, value in sheet.items()}
        if isinstance(sheet, dict)
        else {"summary": text}
    )


def missing(sheet: Mapping[str, str], fields: Sequence[str]) -> list[str]:
    """The fields that are asked for and not filled in."""
    return [name for name in fields if not sheet.get(name, "").strip()]


def blank(fields: Sequence[str]) -> str:
    """An empty sheet to fill in."""
    return "".join(f"{name}:  # {FACT_FIELDS.get(name, 'please fill in')}\n" for name in fields)
