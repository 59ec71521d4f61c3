"""The API is as its description says, whoever asks and whatever they send; no request makes the server fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longshot.arena.policy import ACTIONS
from longshot.arena.server.api_staff import OPERATIONS

from .conftest import Arena

schemathesis = pytest.importorskip("schemathesis")
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402

# Asked for with anything, they end what other questions need: a session, the worker's own sign of life.
_LEFT_OUT = ("delete_session", "post_me_password")


def document(arena: Arena) -> dict[str, Any]:
    answer = arena.visitor.api("GET", "/openapi.json")
    assert answer.status == 200
    return dict(answer.json)


def test_every_operation_is_described(arena: Arena) -> None:
    described = document(arena)
    names = {each["operationId"] for path in described["paths"].values() for each in path.values()}
    assert names == {operation.name for operation in OPERATIONS} and len(names) == len(OPERATIONS)
    references = set(json.dumps(described).split('"$ref": "')[1:])
    for reference in references:
        name = reference.split('"')[0].rpartition("/")[2]
        assert name in described["components"]["schemas"]


def ask_everything(arena: Arena, examples: int, *, everybody: bool) -> int:
    """Every operation, with values made from its description, by everybody or by one who may."""
    described = document(arena)
    for path in described["paths"].values():
        for each in path.values():
            each.pop("security", None)  # who asks is given below
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=f"http://127.0.0.1:{arena.port}")
    people = {"organiser": arena.organiser, "worker": arena.worker}
    people |= {"participant": arena.ada, "visitor": arena.visitor}
    allowed = {operation.name: ACTIONS[operation.action].roles for operation in OPERATIONS}
    counted: list[int] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        name = operation.definition.raw["operationId"]
        if name in _LEFT_OUT:
            continue
        roles = list(people) if everybody else [role for role in people if role in allowed[name]][:1]
        for role in roles:
            _ask(operation.as_strategy(), people[role].headers, examples, counted)
    return len(counted)


def _ask(strategy: Any, headers: dict[str, str], examples: int, counted: list[int]) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )
    @given(case=strategy)
    def ask(case: Any) -> None:
        response = case.call(headers=headers)
        counted.append(response.status_code)
        case.validate_response(response, checks=[not_a_server_error])

    ask()


def test_no_request_makes_the_server_fail(own_arena: Arena) -> None:
    """A short form: a question to every operation, by one who may ask it."""
    assert ask_everything(own_arena, 1, everybody=False) >= len(OPERATIONS) - len(_LEFT_OUT)


@pytest.mark.long
def test_no_request_makes_the_server_fail_at_length(own_arena: Arena) -> None:
    assert ask_everything(own_arena, 40, everybody=True) > 40 * len(OPERATIONS)
