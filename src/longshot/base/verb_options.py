"""Command-line options made from a function: its signature gives names and defaults, its docstring types and help.

The source is parsed, never imported, so that help costs no heavy library. An entry of the Parameters section such as

    tasks : int, at least 1
        Tasks to draw from each dataset. The first n are the same whatever the number.

becomes ``-t, --tasks INTEGER RANGE  Tasks to draw from each dataset.  [default: 600; x>=1]``:

- the first sentence is the help; a sentence ``Default: …`` is shown where the signature has None; all others are for
  readers of Python;
- ``at least 1``, ``above 0``, ``0 to 1`` are bounds; ``{"a", "b"}`` and a ``Literal`` are choices; ``file``, ``folder``
  and ``path`` are on this machine, with ``or URL`` elsewhere too; a first word in capitals is shown for the value
  (``LO:HI, str``);
- a list may be repeated, a mapping is written ``NAME=VALUE``, what is True is switched off by ``--no-…``;
- "As in ``embed``." takes type and help from the entry of that name there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click

from longshot.base.commands import FILE, FILE_PLACE, FOLDER, PATH, PLACE, Grouped, Numbers, pair_reader

F = TypeVar("F", bound=Callable[..., Any])
PACKAGE = Path(__file__).resolve().parents[1]
SHORT = {"out": "-o", "tasks": "-t"} | dict.fromkeys(("backbone", "backbones", "judge"), "-b")
SHORT |= dict.fromkeys(("method", "methods"), "-m")
# shown by --help-all where a command has groups
RARE = ("force", "engine", "on", "gpus_per_worker", "retry_failed")
_PLACES = {"file": FILE, "folder": FOLDER, "path": PATH}
_PLACES |= {"file or URL": FILE_PLACE, "folder or URL": PLACE, "path or URL": PLACE}
_REQUIRED: Any = object()


@dataclass(frozen=True)
class VerbParameter:
    """One parameter: its annotation and default as the signature has them, type and text as the docstring does."""

    name: str
    annotation: str
    default: Any
    by_keyword: bool
    kind: str
    text: str

    @property
    def sentence(self) -> str:
        """Return the first sentence, and what the default is where a sentence says it."""
        first, *further = re.split(r"(?<=[.?…])\s+(?=[A-Z`])", self.text)
        defaults = [line.removesuffix(".") for line in further if line.startswith("Default: ")]
        return first if not defaults else f"{first}  [default: {defaults[0].removeprefix('Default: ')}]"

    @property
    def metavar(self) -> str | None:
        """Return how the value is written, where the type says so."""
        match = re.match(r"([A-Z](?![a-z])\S*?|\S+\|\S+?), ", self.kind)
        return None if match is None else match[1]

    @property
    def repeated(self) -> bool:
        """Tell whether it may be given several times: a list."""
        return re.search(r"\blist\b", self.kind) is not None

    @property
    def is_mapping(self) -> bool:
        """Tell whether it is written NAME=VALUE."""
        return re.match(r"(\S+=\S+, )?mapping, optional", self.kind) is not None

    @property
    def type(self) -> Any:
        """Return the click type."""
        literal = re.search(r"Literal\[(.*?)\]", self.annotation)
        choices = re.findall(r"""["']([^"']*)["']""", literal[1] if literal else _braces(self.kind))
        if choices:
            return click.Choice(choices)
        if "Sequence[float]" in self.annotation:
            return Numbers()
        number = re.match(r"(int|float)\b(?! or)", self.annotation)
        if number is not None:
            return _number(number[1], self.kind)
        location = re.search(r"\b(file|folder|path)s?( or URL)?", self.kind)
        if location is not None and not re.search(r"\bstr\b", self.kind):
            return _PLACES[location[1] + (location[2] or "")]
        return None


class VerbOption(Grouped):
    """An option that was made from a parameter of ``verb``."""

    def __init__(self, *args: Any, verb: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.verb = verb


Changes: TypeAlias = Mapping[str, Mapping[str, Any]]


def verb_options(
    verb: str, changes: Changes | None = None, *, only: str = "", without: str = ""
) -> Callable[[F], F]:
    """Give a click command the options of a verb's keyword-only parameters, in the order of its docstring.

    Parameters
    ----------
    verb : str
        A function of ``longshot``: ``"sample"``, ``"audit.leave_out_overlap"``; or a class's, ``"arena.Cup.submit"``.
    changes : mapping, optional
        Parameter → what the command line says otherwise, as ``click.option`` takes it, and ``flags``, its names. One
        that has a place in the signature becomes an option by being named here.
    only, without : str
        Names with spaces between: take these alone, or leave these out.
    """
    changes = changes or {}
    parameters = verb_parameters(verb)
    names = only.split() or [
        name
        for name, parameter in parameters.items()
        if name not in without.split() and (parameter.by_keyword or name in changes)
    ]

    flags = {name: changes.get(name, {}).get("flags") or _flags(each) for name, each in parameters.items()}

    def apply(command: F) -> F:
        for name in reversed(names):
            command = _option(verb, parameters[name], flags, changes.get(name, {}))(command)
        return command

    return apply


def _option(
    verb: str, parameter: VerbParameter, flags: dict[str, list[str]], changes: Mapping[str, Any]
) -> Callable[[Any], Any]:
    """Return the decorator of one option."""
    name = parameter.name
    settings: dict[str, Any] = {"rare": name in RARE, "help": _worded(parameter.sentence, flags)}
    if parameter.is_mapping:
        form = parameter.metavar or "NAME=VALUE"
        settings |= {"multiple": True, "metavar": form, "callback": pair_reader(flags[name][-1], form)}
    elif parameter.annotation.startswith("bool"):
        settings |= {"is_flag": True, "default": parameter.default}
        if parameter.default is None:
            settings["callback"] = lambda _, __, value: value or None
    else:
        settings |= {"type": parameter.type, "metavar": parameter.metavar, "multiple": parameter.repeated}
        if parameter.default is _REQUIRED:
            settings["required"] = True
        elif not parameter.repeated and parameter.default is not None:
            settings |= {"default": parameter.default, "show_default": parameter.default != ""}
    settings |= {key: value for key, value in changes.items() if key != "flags"}
    return click.option(*flags[name], name, cls=VerbOption, verb=verb, **settings)


def _flags(parameter: VerbParameter) -> list[str]:
    """Return the names of an option: ``-b --backbone`` for a list ``backbones``, ``--x/--no-x`` for what is True."""
    singular = (
        parameter.name.removesuffix("s") if parameter.repeated or parameter.is_mapping else parameter.name
    )
    flag = "--" + singular.replace("_", "-")
    if parameter.default is True:
        flag = f"{flag}/--no-{flag[2:]}"
    return [SHORT[parameter.name], flag] if parameter.name in SHORT else [flag]


def _worded(text: str, flags: dict[str, list[str]]) -> str:
    """Write a sentence of a docstring for a shell: parameters as flags, code without backquotes."""

    def shell(match: re.Match[str]) -> str:
        name = match[1]
        return flags[name][-1].partition("/")[0] if name in flags else name.strip('"')

    return re.sub(r"``(.+?)``", shell, text)


def _number(kind: str, text: str) -> Any:
    """Return a number within the bounds that a type says: ``at least 1``, ``above 0``, ``0 to 1``, ``up to 1``."""
    value = r"(-?[\d.]+)"
    least, above, most = (re.search(f"{word} {value}", text) for word in ("at least", "above", "(?:up )?to"))
    between = re.search(f"{value} to {value}", text)
    low = least or above or between
    if low is None and most is None:
        return int if kind == "int" else float
    make: Any = click.IntRange if kind == "int" else click.FloatRange

    def read(text: str) -> float:
        value = float(text)
        return int(value) if value.is_integer() else value

    return make(low and read(low[1]), most and read(most[1]), min_open=above is not None)


def _braces(text: str) -> str:
    match = re.search(r"\{(.*?)\}", text, re.DOTALL)
    return "" if match is None else match[1]


# ---- reading the source


@cache
def verb_parameters(verb: str) -> dict[str, VerbParameter]:
    """Return the keyword parameters of a function of ``longshot`` that its docstring describes, by name.

    Those of an ``Unpack``-ed TypedDict follow, from its docstring.
    """
    room, _, name = verb.rpartition(".")
    tree, function = _find(PACKAGE.joinpath(*room.split(".")) if room else PACKAGE, name)
    assert isinstance(function, ast.FunctionDef)
    signature: dict[str, tuple[str, Any, bool]] = {}
    positional = function.args.args
    defaults = [None] * (len(positional) - len(function.args.defaults)) + list(function.args.defaults)
    for argument, default in (
        *zip(positional, defaults, strict=True),
        *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True),
    ):
        value = _REQUIRED if default is None else _value(default, tree)
        annotation = ast.unparse(argument.annotation or ast.Constant(""))
        signature[argument.arg] = annotation, value, argument in function.args.kwonlyargs
    entries = dict(_entries(function))
    if function.args.kwarg is not None and function.args.kwarg.annotation is not None:
        for name_of, kind, entry in _unpacked(tree, function.args.kwarg.annotation):
            signature[name_of], entries[name_of] = (kind, None, True), entry
    return {
        name: VerbParameter(name, *signature[name], *_followed(name, *entry))
        for name, entry in entries.items()
        if name in signature
    }


def _followed(name: str, kind: str, text: str) -> tuple[str, str]:
    """Return type and text of an entry, or of the one that it refers to."""
    match = re.match(r"As in ``([\w.]+)``", text)
    if match is None:
        return kind, text
    other = verb_parameters(match[1])[name]
    return other.kind if kind in ("", "optional") else kind, other.text


def _entries(node: Any) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield (name, (type, text)) of each parameter that a docstring describes."""
    text = cleandoc(ast.get_docstring(node) or "")
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", text, re.DOTALL | re.MULTILINE)
    if section is None:
        return
    for match in re.finditer(r"^(\S.*?)(?: : (.*))?\n((?:[ \t]+.*\n?|\n)*)", section[1], re.MULTILINE):
        for name in match[1].split(", "):
            yield name, (match[2] or "", " ".join(match[3].split()))


def _unpacked(tree: ast.Module, annotation: ast.expr) -> Iterator[tuple[str, str, tuple[str, str]]]:
    """Yield (name, annotation, entry) of each key of a TypedDict, which another module may define."""
    match = re.fullmatch(r"Unpack\[(\w+)\]", ast.unparse(annotation))
    if match is None:
        return
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == match[1] for alias in node.names):
            tree = _imported(node)
    keys = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == match[1])
    entries = dict(_entries(keys))
    for node in keys.body:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id in entries
        ):
            yield node.target.id, ast.unparse(node.annotation), entries[node.target.id]


def _find(package: Path, name: str) -> tuple[ast.Module, ast.stmt]:
    """Return the module and the definition of what a room exports under a name, by the lines of its stub.

    Where ``package`` ends in a class, it is a method of that.
    """
    if package.name[0].isupper():
        tree, owner = _find(package.parent, package.name)
        return tree, next(each for each in vars(owner)["body"] if getattr(each, "name", "") == name)
    stub = package / "__init__.pyi"
    if stub.is_file():
        line = re.search(rf"^from \.([\w.]*) import (\w+) as {name}\b", stub.read_text("utf-8"), re.MULTILINE)
        if line is not None:
            return _find(package.joinpath(*line[1].split(".")), line[2])
    path = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
    tree = _parsed(path)
    for node in reversed(tree.body):  # overloads stand before what they declare
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return tree, node
    raise LookupError(f"{path} does not define {name}")


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _value(default: ast.expr, tree: ast.Module) -> Any:
    """Return a default: a literal, or a constant of this module or of one that it imports from."""
    if isinstance(default, ast.Name):
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and any(alias.name == default.id for alias in node.names):
                return _value(default, _imported(node))
            targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
            if isinstance(targets[0], ast.Name) and targets[0].id == default.id:
                return ast.literal_eval(vars(node)["value"])
    return None if isinstance(default, ast.Lambda) else ast.literal_eval(default)  # a callable is no option


def _imported(node: ast.ImportFrom) -> ast.Module:
    """Return the module of Longshot that a line imports from."""
    return _parsed(PACKAGE.joinpath(*(node.module or "").split(".")[1:]).with_suffix(".py"))
