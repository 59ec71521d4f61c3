"""Archives that come with a form, in one piece: as safe as those that a script sends, whatever the form holds."""

from __future__ import annotations

import hashlib

import pytest

from answers import Answer
from longshot.arena.server import pages_work
from longshot.arena.server.endpoint import PARTS, parse_form
from longshot.base import UserError

from .conftest import Arena, Visitor, archive

KIND = "multipart/form-data; boundary=----edge"


def body(file: bytes | None, **fields: str) -> bytes:
    parts = [
        f'------edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    if file is not None:
        head = (
            'Content-Disposition: form-data; name="file"; filename="a.zip"\r\nContent-Type: application/zip'
        )
        parts.append(f"------edge\r\n{head}\r\n\r\n".encode() + file + b"\r\n")
    return b"".join([*parts, b"------edge--\r\n"])


def post(person: Visitor, data: bytes, kind: str = KIND, **headers: str) -> Answer:
    own = Visitor(person.port, {"Cookie": person.headers.get("Cookie", "")})
    return own.ask("POST", "/submit", data=data, headers={"Content-Type": kind, **headers})


def test_an_archive_in_a_form_is_taken_byte_for_byte(arena: Arena) -> None:
    data = archive(note="\r\n--edge\r\n\r\n------edg")
    csrf = arena.ada.headers["X-CSRF-Token"]
    sent = {"csrf": csrf, "phase": "feedback", "league": "meta-learning", "field-title": "Grüße"}
    answer = post(arena.ada, body(data, **sent))
    assert answer.status == 303, answer.body
    number = int(answer.headers["location"].rpartition("/")[2])
    page = arena.ada.good("GET", f"/submissions/{number}")
    assert page["submission"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert page["submission"]["league"] == "meta-learning" and page["fact_sheet"] == {"title": "Grüße"}
    arena.ada.good("POST", f"/submissions/{number}/cancel")


@pytest.mark.parametrize(
    ("case", "status", "words"),
    [
        ("no csrf", 403, "The form is not one of your session"),
        ("no file", 422, "The form brought no archive"),
        ("no league", 422, "There is no league"),
        ("no zip", 422, "cannot be taken"),
        ("cut off", 422, "The form does not end"),
        ("other site", 403, "another site"),
        ("visitor", 401, "logged in"),
        ("too large", 413, "bytes"),
    ],
)
def test_a_form_that_is_refused_enters_nothing(
    arena: Arena, case: str, status: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = arena.organiser.good("GET", "/organiser/submissions")["total"]
    fields = {"csrf": arena.ada.headers["X-CSRF-Token"], "phase": "feedback", "league": "free-style"}
    data, headers, person = archive(note=case), {}, arena.ada
    if case == "no csrf":
        fields["csrf"] = arena.bob.headers["X-CSRF-Token"]
    elif case == "no league":
        fields["league"] = "chess"
    elif case == "no zip":
        data = b"no zip at all"
    elif case == "other site":
        headers = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    elif case == "visitor":
        person = arena.visitor
    elif case == "too large":
        data = bytes(pages_work.PLAIN + (1 << 20))
    sent = body(None if case == "no file" else data, **fields)
    answer = post(person, sent[:-20] if case == "cut off" else sent, **headers)
    assert (answer.status, words in answer.body.decode()) == (status, True), answer.body
    assert arena.organiser.good("GET", "/organiser/submissions")["total"] == before


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("multipart/form-data", b""),
        (KIND, b""),
        (KIND, b"------edge\r\n\r\n------edge--"),
        (KIND, b'------edge\r\nContent-Disposition: attachment; name="x"\r\n\r\n1\r\n------edge--'),
        (KIND, body(None, **{f"f{number}": "" for number in range(PARTS + 1)})),
    ],
)
def test_a_form_that_is_none_is_told_in_a_sentence(kind: str, data: bytes) -> None:
    with pytest.raises(UserError):
        parse_form(kind, data)


def test_as_many_parts_as_are_allowed() -> None:
    form = parse_form(KIND, body(b"", **{f"f{number}": str(number) for number in range(PARTS - 1)}))
    assert len(form.fields) == PARTS - 1 and form.fields["f7"] == "7" and form.files["file"].name == "a.zip"
