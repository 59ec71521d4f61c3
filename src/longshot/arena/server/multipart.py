"""Forms with a file, as browsers send them without a script: ``multipart/form-data``, held in memory, bounded."""

from __future__ import annotations

import re
from typing import NamedTuple

from longshot.base import UserError

PARTS = 200  # of one form
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,70})"|([^\s;,]{1,70}))', re.IGNORECASE)
_DISPOSITION = re.compile(rb"^content-disposition:\s*form-data\s*;(.*)$", re.IGNORECASE | re.MULTILINE)
_PARAMETER = re.compile(rb'\b(name|filename)="([^"]*)"')


class SentFile(NamedTuple):
    """A file of a form."""

    name: str
    data: bytes


class SentForm(NamedTuple):
    """A form: its fields as texts, and its files."""

    fields: dict[str, str]
    files: dict[str, SentFile]


def is_multipart(content_type: str) -> bool:
    """Whether a body is a form with files."""
    return content_type.partition(";")[0].strip().lower() == "multipart/form-data"


def parse_form(content_type: str, body: bytes) -> SentForm:
    """The fields and files of a form; UserError where it is none.

    Examples
    --------
    >>> body = b'--x\\r\\nContent-Disposition: form-data; name="league"\\r\\n\\r\\nfree-style\\r\\n--x--\\r\\n'
    >>> parse_form("multipart/form-data; boundary=x", body).fields
    {'league': 'free-style'}
    """
    match = _BOUNDARY.search(content_type)
    if match is None:
        raise UserError("The form has no boundary between its parts.")
    delimiter = b"\r\n--" + (match[1] or match[2]).encode("latin-1", "replace")
    # A preamble, the parts, and what follows the last delimiter: "--".
    _, *parts = (b"\r\n" + body).split(delimiter, PARTS + 1)
    if not parts or not parts[-1].startswith(b"--"):
        raise UserError(f"The form does not end, or has more than {PARTS} parts.")
    form = SentForm({}, {})
    for part in parts[:-1]:
        head, blank, content = part.partition(b"\r\n\r\n")
        disposition = _DISPOSITION.search(head.replace(b"\r\n", b"\n"))
        if not blank or disposition is None:
            raise UserError("A part of the form does not say which field it is.")
        named = {key: value.decode("utf-8", "replace") for key, value in _PARAMETER.findall(disposition[1])}
        if b"filename" in named:
            form.files[named.get(b"name", "")] = SentFile(named[b"filename"], content)
        else:
            form.fields[named.get(b"name", "")] = content.decode("utf-8", "replace")
    return form
