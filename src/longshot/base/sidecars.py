"""JSON files beside arrays and weights that say what those are: read, checked, and told in one sentence if wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from longshot.base.errors import UserError
from longshot.base.settings import read_record


def read_sidecar(model: type[BaseModel], path: Path, *, missing: UserError, remedy: str) -> dict[str, Any]:
    """The values of the JSON file at ``path``, in the order of the file.

    Parameters
    ----------
    model : type
        What they must hold: a ``Loose`` record with ``format: Literal[…]``.
    path : Path
        The sidecar.
    missing : UserError
        What is raised where there is no such file.
    remedy : str
        What to do about a damaged one, without a full stop.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise missing from None
    except ValueError as error:
        raise UserError(f"The sidecar {path} is truncated or no JSON ({error})", remedy) from error
    try:
        model.model_validate(values)
    except ValidationError as error:
        raise _wrong(model, path, values, error) from error
    return dict(values)


def _wrong(model: type[BaseModel], path: Path, values: Any, error: ValidationError) -> UserError:
    fields = model.model_fields
    absent = [name for name in fields if not isinstance(values, dict) or name not in values]
    absent = [name for name in absent if fields[name].is_required()]
    if absent:
        return UserError(f"The sidecar {path} lacks {', '.join(absent)}: it was not written by Longshot.")
    first = error.errors()[0]
    if first["loc"] == ("format",):
        return UserError(
            f"The sidecar {path} has format {values['format']}, this Longshot reads {first['ctx']['expected']}",
            "upgrade Longshot",
        )
    try:
        read_record(model, values, f"The sidecar {path}")
    except UserError as sentence:
        return sentence
    return UserError(f"The sidecar {path} does not hold what it should ({error}).")
