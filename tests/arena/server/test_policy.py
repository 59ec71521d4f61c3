"""Who may do what, asked of every route there is, in every role; what no table names is refused."""

from __future__ import annotations

from typing import Any

import pytest

from longshot.arena.policy import ACTIONS, OF_ROLE, ROLES, SCOPES, Person, Refusal, permit
from longshot.arena.server.api_staff import OPERATIONS
from longshot.arena.server.operations import Operation

from .conftest import Arena, Visitor

# Actions and who may take them, written down a second time: a slip in the table of the policy is a difference here.
_LISTS = {
    "visitor participant organiser worker": (
        "competition.read board.read announcements.read queue.read account.register session.begin"
    ),
    "participant organiser": (
        "session.end account.read account.change token.list token.create token.revoke team.read team.change "
        "quota.read submission.list submission.read submission.log submission.cancel submission.select "
        "submission.sheet upload.begin upload.read upload.write upload.finish upload.list upload.delete"
    ),
    "worker": "work.claim work.read work.write",
    "organiser": (
        "people.read people.change invitation.create worker.token announcement.write upload.every "
        "upload.clear submission.every submission.rerun submission.delete scores.redo final.enter "
        "queue.pause audit.read export.read"
    ),
}
WHO = {action: set(roles.split()) for roles, actions in _LISTS.items() for action in actions.split()}
_NO_TOKEN = (
    "session.end account.change token.list token.create token.revoke team.change people.change invitation.create "
    "worker.token"
)
NO_TOKEN = _NO_TOKEN.split(" ")
_LASTING = ("delete_session", "post_organiser_final", "post_organiser_resume", "post_team_leave")


def test_the_table_is_as_it_is_written_here() -> None:
    assert {action: set(rule.roles) for action, rule in ACTIONS.items()} == WHO


def test_every_route_names_an_action_and_every_action_has_a_route() -> None:
    assert {operation.action for operation in OPERATIONS} == set(ACTIONS)


def test_what_reads_changes_nothing_and_what_changes_is_no_get() -> None:
    changing = {action for action in ACTIONS if action.split(".")[1] not in ("read", "list", "log", "every")}
    changing -= {"submission.delete"}  # its trash is read, too
    for operation in OPERATIONS:
        if operation.method == "GET":
            assert operation.action not in changing, operation.path


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("action", [*WHO, "nobody.knows"])
def test_a_role_may_what_the_table_says(role: str, action: str) -> None:
    person = Person(role, scopes=OF_ROLE[role], via="session")  # type: ignore[arg-type,index]
    if role in WHO.get(action, set()):
        permit(person, action)
    else:
        with pytest.raises(Refusal) as caught:
            permit(person, action)
        assert caught.value.status == (401 if role == "visitor" and action in WHO else 403)


@pytest.mark.parametrize("action", WHO)
def test_a_token_needs_the_scope_and_cannot_do_what_a_browser_must(action: str) -> None:
    rule = ACTIONS[action]
    role = sorted(rule.roles - {"visitor"})[0]
    for scope in SCOPES:
        person = Person(role, scopes=frozenset((scope,)), via="token")
        allowed = rule.scope in (None, scope) and action not in NO_TOKEN
        if allowed:
            permit(person, action)
        else:
            with pytest.raises(Refusal):
                permit(person, action)


def body_of(operation: Operation) -> Any:
    """A body that passes no check but is JSON: what is asked here is who is let through to it."""
    return {} if operation.body is not None else None


def address(operation: Operation) -> str:
    path = operation.path
    for name, kind in operation.parameters.items():
        mark = f"{{{name}:{kind}}}" if kind == "int" else f"{{{name}}}"
        path = path.replace(mark, "999999" if kind == "int" else "0" * 32)
    return path


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_route_asks_the_policy(arena: Arena, operation: Operation, role: str) -> None:
    """Who may not is told so before anything of the request is read; who may gets as far as its content."""
    person = {
        "visitor": arena.visitor,
        "participant": arena.ada,
        "organiser": arena.organiser,
        "worker": arena.worker,
    }[role]
    if operation.name in _LASTING and role in WHO[operation.action]:
        return  # it would have done something afterwards: here only those who may not
    data = b"" if operation.raw else None
    answer = person.api(operation.method, address(operation), body_of(operation), data=data)
    if role in WHO[operation.action]:
        assert answer.status not in (401, 403, 500), answer.body
    else:
        assert answer.status == (401 if role == "visitor" else 403), answer.body
        assert answer.headers["content-type"] == "application/problem+json"


def test_other_peoples_objects_are_not_there(arena: Arena) -> None:
    number = arena.submit(arena.ada)
    identity = _begun(arena.ada)
    strange = [operation for operation in OPERATIONS if _is_of_a_team(operation)]
    assert len(strange) >= 9
    for operation in strange:
        path = operation.path.replace("{number:int}", str(number)).replace("{identity}", identity)
        body = {"fields": {"title": "x"}} if operation.path.endswith("fact-sheet") else body_of(operation)
        query = {"offset": 0} if operation.method == "PUT" and operation.raw else None
        data = b"x" if operation.raw else None
        answer = arena.bob.api(operation.method, path, body, data=data, query=query)
        nowhere = arena.bob.api(
            operation.method, path.replace(str(number), "999999"), body, data=data, query=query
        )
        assert answer.status == 404, (operation.path, answer.body)
        if "number" in operation.path:
            assert nowhere.status == 404
            assert nowhere.detail.replace("999999", str(number)) == answer.detail
    assert arena.ada.good("GET", f"/submissions/{number}")["submission"]["id"] == number
    assert arena.organiser.good("GET", f"/submissions/{number}")["submission"]["id"] == number
    assert [row["id"] for row in arena.bob.good("GET", "/submissions")["items"]] == []


def _is_of_a_team(operation: Operation) -> bool:
    return operation.path.startswith(("/submissions/{number", "/uploads/{identity"))


def _begun(person: Visitor) -> str:
    return str(person.good("POST", "/uploads", {"size": 10, "sha256": "0" * 64})["id"])
