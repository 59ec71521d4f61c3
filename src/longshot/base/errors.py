"""The one exception for mistakes a user can mend, how each face of Longshot words it, and words that messages share.

A mistake is a fact and a remedy in terms of parameters. ``UserError("… has 3 classes, but a task needs 5",
"lower {way} or add classes")`` reads "lower --way or add classes" on the command line, "lower way or add classes" in
Python, and names the setting in a study. Between braces stand

    {way}                      a parameter
    {tasks:600}                a parameter with a value: --tasks 600, tasks=600, tasks: 600
    {drop_small:True}          a switch: --drop-small, drop_small=True, drop_small: true
    {datasets:birds=PATH}      a value by name: --dataset birds=PATH, datasets={"birds": PATH}
    {sample(toybox, way=5)}    a call: 'longshot sample toybox --way 5', longshot.sample("toybox", way=5)

Anything else between braces is text like any other, so names of files and reprs of values need no escaping.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol


class Face(Protocol):
    """How one face of Longshot writes parameters and calls."""

    def parameter(self, name: str, value: str | None) -> str:
        """Write a parameter, with the value to give it where there is one."""
        ...

    def call(self, name: str, arguments: list[str], settings: dict[str, str]) -> str:
        """Write a function of ``longshot``, which is also a command, with what to give it."""
        ...


class PythonFace:
    """Parameters as keyword arguments: ``tasks=600``, ``longshot.sample("toybox", way=5)``."""

    def parameter(self, name: str, value: str | None) -> str:
        return name if value is None else f"{name}={python_value(value)}"

    def call(self, name: str, arguments: list[str], settings: dict[str, str]) -> str:
        shown = [python_value(argument) for argument in arguments]
        shown += [self.parameter(key, value) for key, value in settings.items()]
        return f"longshot.{name}({', '.join(shown)})"


class UserError(Exception):
    """A mistake in the input, told in one sentence: the thing, what was found, what is needed, the remedy.

    The command line prints the sentence in its own words, without a traceback, and exits with code 2.

    Parameters
    ----------
    fact : str
        What is wrong: the thing, the count found, the count needed. A whole sentence where there is no remedy.
    remedy : str
        What to do about it, without a full stop: "lower {way} or add classes". See the module for the braces.

    Examples
    --------
    >>> print(UserError("Dataset 'birds' has 3 classes, but a task needs 5", "lower {way} or add classes"))
    Dataset 'birds' has 3 classes, but a task needs 5; lower way or add classes.
    >>> print(UserError("There are 10 different tasks and 20 were asked for", "pass {tasks:10}"))
    There are 10 different tasks and 20 were asked for; pass tasks=10.
    """

    def __init__(self, fact: str, remedy: str = "") -> None:
        super().__init__(fact, remedy)
        self.fact, self.remedy = fact, remedy

    @property
    def template(self) -> str:
        """Return the sentence with its braces, to stand inside another error's fact."""
        return f"{self.fact}; {self.remedy}." if self.remedy else self.fact

    def render(self, face: Face) -> str:
        """Return the sentence as ``face`` words it.

        Parameters
        ----------
        face : Face
            How parameters and calls are written.

        Examples
        --------
        >>> UserError("There are 3 classes", "lower {way}").render(PythonFace())
        'There are 3 classes; lower way.'
        """
        return render(self.template, face)

    def __str__(self) -> str:
        return self.render(_speaking[0])


_speaking: list[Face] = [PythonFace()]


def speak_as(face: Face) -> Face:
    """Let sentences and notes mention parameters and calls as ``face`` writes them; returns the face before.

    Python's way is the default; the command line changes it while one of its commands runs.
    """
    before, _speaking[0] = _speaking[0], face
    return before


def in_words(template: str) -> str:
    """Write ``template`` as the current face does."""
    return render(template, _speaking[0])


def render(template: str, face: Face) -> str:
    """Write ``template`` with every parameter and call between braces as ``face`` does.

    >>> render("lower {way} or allow {repeats:True}", PythonFace())
    'lower way or allow repeats=True'
    >>> render("the file {a b}.png", PythonFace())
    'the file {a b}.png'
    """
    return "".join(piece if isinstance(piece, str) else piece.written(face) for piece in _pieces(template))


class _Parameter(NamedTuple):
    name: str
    value: str | None

    def written(self, face: Face) -> str:
        return face.parameter(self.name, self.value)


class _Call(NamedTuple):
    name: str
    arguments: list[str]
    settings: dict[str, str]

    def written(self, face: Face) -> str:
        return face.call(self.name, self.arguments, self.settings)


def _pieces(template: str) -> Iterator[str | _Parameter | _Call]:
    position = 0
    while (start := template.find("{", position)) >= 0:
        end = template.find("}", start)
        if end < 0:
            break
        yield template[position:start]
        inside = template[start + 1 : end]
        mention = _mention(inside)
        if mention is None:  # not ours: the brace is text, what follows it may hold a mention
            yield "{"
            position = start + 1
        else:
            yield mention
            position = end + 1
    yield template[position:]


def _mention(text: str) -> _Parameter | _Call | None:
    if text.isidentifier():
        return _Parameter(text, None)
    name, colon, value = text.partition(":")
    if colon and name.isidentifier():
        return _Parameter(name, value.strip())
    name, parenthesis, inside = text.partition("(")
    if not (parenthesis and inside.endswith(")") and name.replace(".", "_").isidentifier()):
        return None
    arguments: list[str] = []
    settings: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in inside[:-1].split(","))):
        key, equals, setting = part.partition("=")
        if equals and key.isidentifier():
            settings[key] = setting
        else:
            arguments.append(part)
    return _Call(name, arguments, settings)


def python_value(text: str) -> str:
    """Write a value as Python does: numbers, True, False, None and placeholders in capitals bare, words in quotes.

    >>> python_value("600"), python_value("uniform"), python_value("FILE"), python_value("birds=PATH")
    ('600', '"uniform"', 'FILE', '{"birds": PATH}')
    >>> python_value("siblings or bilevel")
    '"siblings" or "bilevel"'
    """
    key, equals, named = text.partition("=")
    if equals and not text.startswith(("[", '"', "'")):  # NAME=PATH of the command line is a dict in Python
        return f'{{"{key}": {python_value(named)}}}'
    if " or " in text:
        return " or ".join(python_value(part) for part in text.split(" or "))
    if text in ("True", "False", "None", "…") or text.startswith(("[", '"', "'")) or _is_number(text):
        return text
    return text if text.isupper() else f'"{text}"'


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- words that messages share


def count(members: Sequence[object] | int, singular: str, plural: str | None = None) -> str:
    """Write a number with its noun.

    >>> count(["a"], "image"), count(1200, "class", "classes")
    ('1 image', '1,200 classes')
    """
    number = members if isinstance(members, int) else len(members)
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def in_bytes(number: float) -> str:
    """Word a size for people.

    >>> in_bytes(15_927_098), in_bytes(512), in_bytes(39_095_590_629)
    ('15.9 MB', '512 bytes', '39.1 GB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:,.0f} bytes"


def first(members: Sequence[object], shown: int = 3) -> str:
    """Write the first ``shown`` of a list, each between quotes, and how many more there are.

    >>> first(["ant", "bee", "cat", "dog"])
    "'ant', 'bee', 'cat' and 1 more"
    """
    text = ", ".join(f"'{member}'" for member in members[:shown])
    more = len(members) - shown
    return f"{text} and {more:,} more" if more > 0 else text


def span(values: Iterable[float]) -> str:
    """Write the range of a number, with at most one decimal.

    >>> span([5, 5]), span([20, 2, 7]), span([1.5, 4.0])
    ('5', '2–20', '1.5–4')
    """
    numbers = list(values)
    low, high = (f"{number:.1f}".removesuffix(".0") for number in (min(numbers), max(numbers)))
    return low if low == high else f"{low}–{high}"


def note(text: str) -> None:
    """Print something that the user should know and that stops nothing, on standard error.

    ``text`` may mention parameters and calls between braces, as in a ``UserError``.
    """
    print(f"note: {in_words(text)}", file=sys.stderr)
