"""The API is as its description says, whoever asks and whatever they send; no request makes the server fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longshot.web.competition.app import OPERATIONS

from .conftest import Arena

schemathesis = pytest.importorskip("schemathesis")
from hypothesis import HealthCheck, Phase, settings  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402

ROLES = ("visitor", "participant", "organiser", "worker")
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


def ask_everything(arena: Arena, examples: int) -> int:
    """Every operation in every role, with values made from the description and around it."""
    described = document(arena)
    for path in described["paths"].values():
        for each in path.values():
            each.pop("security", None)  # who asks is given below
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=f"http://127.0.0.1:{arena.port}")
    people = (arena.visitor, arena.ada, arena.organiser, arena.worker)
    counted: list[int] = []
    phases = (Phase.explicit, Phase.generate)
    quiet = list(HealthCheck)
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.definition.raw["operationId"] in _LEFT_OUT:
            continue
        for person in people:
            headers = person.headers

            @settings(
                max_examples=examples,
                deadline=None,
                phases=phases,
                suppress_health_check=quiet,
                database=None,
                derandomize=True,
            )
            def ask(case: Any, headers: dict[str, str] = headers) -> None:
                response = case.call(headers=headers)
                counted.append(response.status_code)
                case.validate_response(response, checks=[not_a_server_error])

            operation.as_strategy()
            from hypothesis import given

            given(case=operation.as_strategy())(ask)()
    return len(counted)


def test_no_request_makes_the_server_fail(own_arena: Arena) -> None:
    """A short form: two questions to every operation in every role."""
    assert ask_everything(own_arena, 2) > 2 * len(OPERATIONS)


@pytest.mark.long
def test_no_request_makes_the_server_fail_at_length(own_arena: Arena) -> None:
    assert ask_everything(own_arena, 40) > 40 * len(OPERATIONS)
