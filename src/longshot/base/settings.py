"""Settings and files declared once as pydantic models; what does not fit is told in one sentence.

A room declares what it reads as a subclass of :class:`Record`; :func:`read_record` turns plain values (from YAML, JSON,
keyword arguments) into it. A file of Longshot's own format adds ``format: Literal[1]`` and goes through
:func:`read_json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from longshot.base.errors import UserError
from longshot.base.files import write_text


class Record(BaseModel):
    """Named values with types: frozen, no unknown names, no silent conversion between kinds (1 is not "1")."""

    # Validators are built on first use: a command declares some sixty records and reads two or three.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, defer_build=True
    )


class LooseRecord(Record):
    """A record whose file may hold more than is read here, as files of a later version do."""

    model_config = ConfigDict(extra="ignore")


# pydantic's kinds of errors → what a person is asked for; where a kind is absent, pydantic's own words serve
_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "settings by name",
    "mapping_type": "settings by name",
    "model_type": "settings by name",
}
_BOUND_ERRORS = ("greater_than_equal", "greater_than", "less_than_equal", "less_than")
RecordType = TypeVar("RecordType", bound=BaseModel)


def read_record(model: type[RecordType], values: Any, subject: str) -> RecordType:
    """Read ``values`` as ``model``; a value that does not fit is a ``UserError`` that begins with ``subject``.

    Parameters
    ----------
    model : type
        A subclass of :class:`Record`.
    values : mapping
        Names and plain values, as YAML or JSON gives them. Lists serve where the model has tuples.
    subject : str
        What the values are, to begin a sentence with: "The study 'hard-md'".

    Examples
    --------
    >>> class Phase(Record):
    ...     tasks: int
    >>> read_record(Phase, {"tasks": 5}, "The phase").tasks
    5
    >>> read_record(Phase, {"taks": 5}, "The phase")
    Traceback (most recent call last):
        ...
    longshot.base.errors.UserError: The phase has no setting 'taks'; did you mean 'tasks'?
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{subject} must hold settings by name, but it holds {_kind(values)}.")
    try:
        # Through JSON's rules where a list is a tuple and a text a date, without changing kinds.
        return model.model_validate(_sequences(values))
    except ValidationError as error:
        # a mistyped name comes before the setting that it left out, and another format before all that it has
        ranks = {"extra_forbidden": 1}
        detail = min(error.errors(), key=lambda each: 0 if _of_format(each) else ranks.get(each["type"], 2))
        if _of_format(detail):
            raise _other_format(subject, detail) from error
        raise UserError(f"{subject} {_sentence(model, detail)}") from error


def _of_format(detail: ErrorDetails) -> bool:
    """Tell whether a file says that it is of another format than is read here."""
    return detail["loc"] == ("format",) and detail["type"] == "literal_error"


def _other_format(subject: str, detail: ErrorDetails) -> UserError:
    return UserError(
        f"{subject} has format {_shown(detail['input']):.40}, this Longshot reads {detail['ctx']['expected']}",
        "read it with the version that wrote it, or make it again",
    )


def read_parameters(model: type[RecordType], values: Mapping[str, Any], function: str) -> RecordType:
    """Read the parameters of ``function`` as ``model``; a UserError names the one that is wrong as every face names it.

    Examples
    --------
    >>> class Length(Record):
    ...     steps: int
    >>> read_parameters(Length, {"steps": "many"}, "train")
    Traceback (most recent call last):
        ...
    longshot.base.errors.UserError: steps is 'many', but it must be a whole number.
    """
    try:
        return model.model_validate(_sequences(values))
    except ValidationError as error:
        detail = error.errors()[0]
    name = str(detail["loc"][0])
    if detail["type"] == "extra_forbidden":
        raise UserError(
            f"{function} has no parameter '{name}'; {nearest_name(name, model.model_fields, 'its parameters are')}"
        )
    if detail["type"] == "value_error":  # raised by a validator of ours, which words it itself
        raise UserError(f"{{{name}}} is {detail['input']!r}, but {detail['ctx']['error']}.")
    raise UserError(f"{{{name}}} is {detail['input']!r}, but it must be {_wanted(model, detail)}.")


def read_json(model: type[RecordType], path: Path, subject: str) -> RecordType:
    """Read the JSON file at ``path`` as ``model``; one that is missing, damaged or of another kind is a UserError."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{subject} {path} does not exist.") from error
    except OSError as error:
        raise UserError(f"{subject} {path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{subject} {path} is damaged: it is not JSON ({error}).") from error
    return read_record(model, values, f"{subject} {path}")


def nearest_name(name: str, names: Any, listed: str) -> str:
    """Write "did you mean 'x'?" where a name is near, else all of them behind ``listed``.

    >>> nearest_name("sibling", ["uniform", "siblings"], "choose")
    "did you mean 'siblings'?"
    >>> nearest_name("zzz", ["uniform", "siblings"], "choose")
    'choose uniform, siblings.'
    """
    options = [str(each) for each in names]
    near = get_close_matches(str(name), options, n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else f"{listed} {', '.join(options)}."


def _sentence(model: type[BaseModel], detail: ErrorDetails) -> str:
    """Write one pydantic error as the rest of a sentence."""
    path = [str(part) for part in detail["loc"]]
    setting = ".".join(path)
    if detail["type"] == "extra_forbidden":
        names = getattr(_inside(model, path[:-1])[0], "model_fields", {})
        return f"has no setting '{setting}'; {nearest_name(path[-1], names, 'the settings are')}"
    if detail["type"] == "missing":
        return f"lacks the setting '{setting}'; add it."
    if detail["type"] == "value_error":  # raised by a validator of ours, which words it itself
        reason = str(detail["ctx"]["error"])
        return (
            f"has the setting {setting} = {_shown(detail['input'])}, but {reason}." if path else f"{reason}."
        )
    return f"has the setting {setting} = {_shown(detail['input'])}, but it must be {_wanted(model, detail)}."


def _wanted(model: type[BaseModel], detail: ErrorDetails) -> str:
    """Say what a value must be, with its bounds: "a whole number of 8 or more"."""
    if detail["type"] == "too_short":
        return f"of {detail['ctx']['min_length']} or more entries"
    words = _WANTED.get(detail["type"])
    if words is None and detail["type"] not in _BOUND_ERRORS:
        return detail["msg"].removeprefix("Input should be ")
    annotation, bounds = _inside(model, [str(part) for part in detail["loc"]])
    if words is None:
        words = "a whole number" if annotation is int else "a number"
    return words + (bounds if words.endswith("number") else "")


def _inside(model: type[BaseModel], path: list[str]) -> tuple[Any, str]:
    """Return the type at ``path`` inside ``model``, through lists and mappings, and its bounds in words."""
    current, bounds = _unwrapped(model)
    for part in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            field = current.model_fields.get(part)
            current, bounds = _unwrapped(None if field is None else field.annotation)
            bounds += [] if field is None else _bounds(field.metadata)
        else:  # a list's position, or a mapping's name
            arguments = [argument for argument in get_args(current) if argument is not ...]
            current, bounds = _unwrapped(arguments[-1] if arguments else None)
    return current, f" {' and '.join(bounds)}" if bounds else ""


def _unwrapped(annotation: Any) -> tuple[Any, list[str]]:
    """Return a type without None and without what is annotated, and the bounds that were annotated."""
    bounds: list[str] = []
    while True:
        if hasattr(annotation, "__metadata__"):
            for part in annotation.__metadata__:
                bounds += _bounds(getattr(part, "metadata", [part]))
            annotation = annotation.__origin__
        elif get_origin(annotation) in (Union, UnionType):
            annotation = next(part for part in get_args(annotation) if part is not type(None))
        else:
            return annotation, bounds


def _bounds(metadata: Iterable[Any]) -> list[str]:
    words = {"ge": "of {} or more", "gt": "above {}", "le": "up to {}", "lt": "below {}"}
    return [words[key].format(getattr(part, key)) for part in metadata for key in words if hasattr(part, key)]


def _shown(value: Any) -> str:
    """Write a value as it was given: lists, not tuples."""
    return repr(_sequences(value, list))


def _sequences(value: Any, kind: type[list[Any] | tuple[Any, ...]] = tuple) -> Any:
    """Make all lists and tuples one kind, all the way down: YAML and JSON have no tuples, frozen records no lists."""
    if isinstance(value, Mapping):
        return {key: _sequences(inner, kind) for key, inner in value.items()}
    return kind(_sequences(inner, kind) for inner in value) if isinstance(value, list | tuple) else value


def _kind(value: Any) -> str:
    names = {"list": "a list", "str": "text", "int": "a number", "float": "a number", "NoneType": "nothing"}
    return names.get(type(value).__name__, type(value).__name__)


# ---- JSON files beside arrays and weights that say what those are


def read_sidecar(model: type[BaseModel], path: Path, *, missing: UserError, remedy: str) -> dict[str, Any]:
    """Read the values of the JSON file at ``path``, in the order of the file.

    Parameters
    ----------
    model : type
        What they must hold: a ``LooseRecord`` record with ``format: Literal[…]``.
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
    other_format = next(filter(_of_format, error.errors()), None)
    if other_format is not None:
        return _other_format(f"The sidecar {path}", other_format)
    fields = model.model_fields
    absent = [name for name in fields if not isinstance(values, dict) or name not in values]
    absent = [name for name in absent if fields[name].is_required()]
    if absent:
        return UserError(f"The sidecar {path} lacks {', '.join(absent)}: it was not written by Longshot.")
    try:
        read_record(model, values, f"The sidecar {path}")
    except UserError as sentence:
        return sentence
    return UserError(f"The sidecar {path} does not hold what it should ({error}).")


# ---- what ``longshot tune`` finds, in a YAML file that ``train`` and ``evaluate`` take in place of a name


class Tuned(Record):
    """Calls and settings: a ``method`` to evaluate with, an ``algorithm`` and ``train`` settings to train with."""

    method: str | None = None
    algorithm: str | None = None
    train: Mapping[str, Any] = {}  # fields of training's settings
    network: str | None = None  # folder of the network that was trained with them
    story: Mapping[str, Any] = {}  # how it was found, for people


def is_tuned(name: str) -> bool:
    """Tell whether a name on the command line is such a file."""
    return name.endswith((".yaml", ".yml"))


def write_tuned(path: str | Path, tuned: Tuned) -> None:
    """Write the file, whole or not at all; what is empty is left out."""
    import yaml

    filled = {key: value for key, value in tuned.model_dump(mode="json").items() if value}
    write_text(path, yaml.safe_dump(filled, sort_keys=False, allow_unicode=True, width=120))


def read_tuned(path: str | Path) -> Tuned:
    """Read such a file; UserError where it is missing or holds something else."""
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"The settings {path} cannot be read: {error.strerror or error}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"The settings {path} are not YAML: {' '.join(str(error).split())}.") from error
    return read_record(Tuned, values, f"The file {path}")


def tuned_method(path: str | Path) -> str:
    """Return the method's call in the file."""
    tuned = read_tuned(path)
    if tuned.method is None:
        raise UserError(f"{path} names no method; add a line such as 'method: protonet'.")
    return tuned.method


def tuned_training(path: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the algorithm's call in the file and the settings of training."""
    tuned = read_tuned(path)
    if tuned.algorithm is None:
        raise UserError(f"{path} names no algorithm; add a line such as 'algorithm: protonet(way=20)'.")
    return tuned.algorithm, dict(tuned.train)
