"""The API as OpenAPI 3.1, written from the declaration of its routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from longshot import __version__
from longshot.arena.policy import ACTIONS
from longshot.arena.server.declare import PREFIX, Operation, schema
from longshot.base import Record

PROBLEM = "application/problem+json"
_KINDS = {"int": {"type": "integer"}, "str": {"type": "string"}}


def describe(operations: Sequence[Operation], title: str) -> dict[str, Any]:
    """The document that ``/api/v1/openapi.json`` answers with."""
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
        "responses": {"200": _answer(operation, shared), "default": _problem()},
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


def _problem() -> dict[str, Any]:
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": "It was not carried out.", "content": content}


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
