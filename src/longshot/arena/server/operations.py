"""Routes of the API, each declared once: the server answers by it, OpenAPI 3.1 is written from it, tests go over it."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, create_model

from longshot import __version__
from longshot.arena.policy import ACTIONS
from longshot.base import Record

PREFIX = "/api/v1"
PARAMETER: re.Pattern[str] = re.compile(r"\{(\w+)(?::(\w+))?\}")


class Query(Record):
    """Parameters behind the question mark: texts that are read as what they should be."""

    model_config = ConfigDict(strict=False)


class FileAnswer(NamedTuple):
    """An answer that is a file, sent as it is."""

    path: Path
    kind: str = "application/octet-stream"
    name: str | None = None  # to save it under
    temporary: bool = False  # removed when it was sent
    lasting: bool = False  # its address says what it is


class Begun(NamedTuple):
    """An answer that begins or ends a session: the cookie goes into a header, the rest into the body."""

    secret: str | None
    answer: Any


class Written(NamedTuple):
    """An answer that is JSON already."""

    text: str


@dataclass(frozen=True)
class Operation:
    """A route: its address, who may ask, and the service that answers.

    What a request may bring follows from the service's parameters: those in the path, those that the route itself
    fixes, and all others, behind the question mark (GET, raw bodies and ``query_names``) or as a JSON body.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    action: str
    service: Callable[..., Any]  # service(context, person, …); its docstring says what the route does
    fixed: Mapping[str, Any] = field(default_factory=dict)  # what the route itself tells the service
    query_names: tuple[str, ...] = ()  # parameters behind the question mark, beside a body
    answer: Any = ...  # type of the answer, None: nothing; what the service says it returns unless given
    raw: int = 0  # most bytes of a raw body
    file: str = ""  # content type, where the answer is a file
    costly: bool = False  # passwords are looked at: a stricter limit on how often
    steady: bool = False  # follows from submissions, people and settings alone: it has a tag, and may be 304
    heavy: bool = False  # takes longer than reading: few at a time, so that readers do not wait for them

    def __post_init__(self) -> None:
        if self.answer is ...:
            returned = get_type_hints(self.service).get("return")
            object.__setattr__(self, "answer", None if returned is NoneType else returned)

    @property
    def summary(self) -> str:
        """Return the first sentence of the service's docstring."""
        return (self.service.__doc__ or "").partition("\n")[0]

    @cached_property
    def query(self) -> type[Record] | None:
        """Return the record of what stands behind the question mark."""
        alone = self.method == "GET" or bool(self.raw)
        return self._record(
            Query, lambda name: name not in self.parameters and (alone or name in self.query_names)
        )

    @cached_property
    def body(self) -> type[Record] | None:
        """Return the record of a JSON body."""
        if self.raw or self.method in ("GET", "DELETE"):
            return None
        return self._record(Record, lambda name: name not in (*self.parameters, *self.query_names))

    def form(self, path: str) -> type[Record] | None:
        """Return the record of the fields, which are texts, of a form that is sent to ``path``."""
        there = [name for name, _ in PARAMETER.findall(path)]
        most = self.parameters if self.method == "DELETE" else None
        return self._record(Query, lambda name: name not in there and (most is None or name in most))

    def _record(self, base: type[Record], chosen: Callable[[str], bool]) -> type[Record] | None:
        hints = get_type_hints(self.service, include_extras=True)
        fields: dict[str, Any] = {
            name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
            for name, parameter in list(signature(self.service).parameters.items())[2:]
            if name not in (*self.fixed, "data") and chosen(name)
        }
        return create_model(self.name, __base__=base, **fields) if fields else None

    @property
    def name(self) -> str:
        """Return an id for programs: ``post_uploads_identity_finish``."""
        words = [self.method.lower(), *re.findall(r"\w+", PARAMETER.sub(r"\1", self.path))]
        return "_".join(words)

    @property
    def parameters(self) -> dict[str, str]:
        """Name → kind of the parameters in the path."""
        return {name: kind or "str" for name, kind in PARAMETER.findall(self.path)}


get, post, put = partial(Operation, "GET"), partial(Operation, "POST"), partial(Operation, "PUT")
patch, delete = partial(Operation, "PATCH"), partial(Operation, "DELETE")


def plain(value: Any) -> Any:
    """Convert a value to JSON: named tuples are objects, moments are ISO in UTC, what is not finite is null."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def schema(kind: Any, shared: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a type; named tuples go into ``shared`` and are referred to."""
    if kind is Any:
        return {}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [schema(each, shared) for each in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list or (origin is tuple and arguments[1:] == (Ellipsis,)):
        return {"type": "array", "items": schema(arguments[0], shared)}
    if origin is tuple:
        items = [schema(each, shared) for each in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(arguments[1], shared)}
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        if kind.__name__ not in shared:
            shared[kind.__name__] = {}  # it may hold itself
            hints = get_type_hints(kind)
            shared[kind.__name__] = {
                "type": "object",
                "description": (kind.__doc__ or "").strip(),
                "properties": {name: schema(hints[name], shared) for name in kind._fields},
                "required": list(kind._fields),
            }
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    simple: dict[Any, dict[str, Any]] = {
        int: {"type": "integer"},
        float: {"type": ["number", "null"]},
        str: {"type": "string"},
        bool: {"type": "boolean"},
        NoneType: {"type": "null"},
        dict: {"type": "object"},
        dt.datetime: {"type": "string", "format": "date-time"},
    }
    return dict(simple[kind])


PROBLEM = "application/problem+json"
_CONTENT = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_REFUSED = {"description": "It was not carried out.", "content": _CONTENT}
_KINDS = {"int": {"type": "integer"}, "str": {"type": "string"}}


def openapi_document(operations: Sequence[Operation], title: str) -> dict[str, Any]:
    """Write the document that ``/api/v1/openapi.json`` answers with."""
    shared: dict[str, Any] = {
        "Problem": {
            "type": "object",
            "description": "Why a request was not carried out, in one sentence.",
            "properties": {
                "type": {"type": "string"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string"},
                "fact": {"type": "string"},
                "remedy": {"type": "string"},
            },
            "required": ["type", "title", "status", "detail"],
        }
    }
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = PREFIX + operation.path
        for name, kind in operation.parameters.items():
            path = path.replace(f"{{{name}:{kind}}}", f"{{{name}}}")
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, shared)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{title}: a Longshot competition",
            "version": "1",
            "description": f"Served by Longshot {__version__}. Errors are problem+json with one sentence.",
        },
        "paths": paths,
        "components": {
            "schemas": shared,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-longshot"},
            },
        },
    }


def _operation(operation: Operation, shared: dict[str, Any]) -> dict[str, Any]:
    rule = ACTIONS[operation.action]
    description: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"For: {', '.join(sorted(rule.roles))}."
        + (f" Scope: {rule.scope}." if rule.scope else ""),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": _KINDS[kind]}
            for name, kind in operation.parameters.items()
        ],
        "responses": {"200": _answer(operation, shared), "default": _REFUSED},
    }
    if "visitor" not in rule.roles:
        description["security"] = [{"token": []}] if not rule.session else []
        description["security"] += [] if "worker" in rule.roles else [{"session": []}]
    if operation.query is not None:
        description["parameters"] += _parameters(operation.query)
    if operation.raw:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        description["requestBody"] = {"required": True, "content": content}
    elif operation.body is not None:
        body = _model(operation.body)
        description["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return description


def _answer(operation: Operation, shared: dict[str, Any]) -> dict[str, Any]:
    if operation.file:
        return {"description": "The file.", "content": {operation.file: {}}}
    if operation.answer is None:
        return {"description": "Done.", "content": {"application/json": {"schema": {"type": "object"}}}}
    content = {"application/json": {"schema": schema(operation.answer, shared)}}
    return {"description": "The answer.", "content": content}


def _model(model: type[Record]) -> dict[str, Any]:
    described = model.model_json_schema()
    described.pop("title", None)
    return described


def _parameters(model: type[Record]) -> list[dict[str, Any]]:
    described = model.model_json_schema()
    required = described.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": kind}
        for name, kind in described.get("properties", {}).items()
    ]
