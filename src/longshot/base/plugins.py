"""What packages add to Longshot: commands, methods, backbones, formats of datasets, samplers, studies.

A package names a `Plugin` by an entry point of the group ``longshot.plugins``. Longshot's own wings arrive this way,
and so can anybody's: ``examples/plugin`` is such a package. Everything that a plugin lists is text,
``"module:attribute"``, imported when it is asked for; so the module with the `Plugin` should import nothing heavy.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from longshot.base.errors import UserError

GROUP = "longshot.plugins"


@dataclass(frozen=True)
class Plugin:
    """Hold what a package adds; every target is written ``"module:attribute"``.

    Parameters
    ----------
    about : str
        One line for ``longshot doctor``.
    commands : dict
        Command → (target, its line in ``longshot --help``); the target is a click command.
    command_of : dict
        Function of ``longshot`` → the words of its command, where they differ from its name.
    checks : dict
        Name of a file that marks a folder → what ``longshot.check`` hands such a folder to: a function of it and the
        settings of ``check``.
    estimates : dict
        Verb → what says its cost for ``longshot.estimate``: a function of the verb's parameters that returns steps
        and notes.
    methods, image_methods : dict
        Method on features, or on images and a network → its class.
    backbones : dict
        Backbone → (target, its line in ``longshot backbones``); the target is a function of (name, device) that returns
        a backbone.
    formats : dict
        Format of datasets → its class.
    shapes, classes, instances : dict
        Word of a sampler → its class; settings are given as in a call, ``every-nth(n=3)``.
    testbeds : dict
        Any name → a function that returns label → path of testbed files that come with the package.
    studies : dict
        Recipe → the module that holds ``RECIPE``; its presets are YAML files in ``presets/`` beside that module.
    """

    about: str
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    command_of: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)
    estimates: Mapping[str, str] = field(default_factory=dict)
    methods: Mapping[str, str] = field(default_factory=dict)
    image_methods: Mapping[str, str] = field(default_factory=dict)
    backbones: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    instances: Mapping[str, str] = field(default_factory=dict)
    testbeds: Mapping[str, str] = field(default_factory=dict)
    studies: Mapping[str, str] = field(default_factory=dict)


@cache
def _entry_points() -> tuple[dict[str, Plugin], dict[str, str]]:
    """Load plugins by name, and say why others cannot be used."""
    from importlib.metadata import (
        entry_points,  # reads mail headers: a fifth of the time of `longshot --help`
    )

    plugins, absent = {}, {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            plugin = entry.load()
        except Exception as error:  # a foreign package may raise anything, and must not end every command
            absent[entry.name] = f"{entry.value} cannot be imported: {error}"
            continue
        if isinstance(plugin, Plugin):
            plugins[entry.name] = plugin
        else:
            absent[entry.name] = f"{entry.value} is a {type(plugin).__name__}, and a Plugin is needed"
    return plugins, absent


def list_plugins() -> dict[str, Plugin]:
    """Return the plugins that are installed, by name."""
    return _entry_points()[0]


def absent_plugins() -> dict[str, str]:
    """Return the plugins that are named by an installed package and cannot be used, each with the reason."""
    return _entry_points()[1]


def plugged(kind: str) -> dict[str, Any]:
    """Collect what all plugins add of one kind: name → target; of equal names the first plugin's stays.

    Parameters
    ----------
    kind : str
        A field of `Plugin`, as ``"methods"``.
    """
    targets: dict[str, Any] = {}
    for plugin in list_plugins().values():
        targets |= {name: target for name, target in getattr(plugin, kind).items() if name not in targets}
    return targets


def load_target(target: str) -> Any:
    """Import what ``"module:attribute"`` names; of another package, UserError says that it cannot be imported.

    >>> load_target("fractions:Fraction")(1, 2)
    Fraction(1, 2)
    """
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        if module.startswith("longshot."):
            raise
        raise UserError(f"{target} cannot be imported: {error}; update or uninstall its package.") from error


# ---- what Longshot's own classes say of themselves, read without importing them


PACKAGE = Path(__file__).resolve().parents[1]
_CLASS = re.compile(r"^class (\w+)(?:\(([^)]*)\))?:\n((?:(?:[ \t].*)?\n)*)", re.MULTILINE)
_DOCSTRING = re.compile(r'^    r?""".*?"""\n', re.MULTILINE | re.DOTALL)
_FACT = re.compile(
    r"^    (\w+)(?:: ClassVar\[.*?\])? = (r?[\"'].*?[\"']|\d+|\{[^}]*\}|\([^)]*\))(?:  #.*)?$", re.MULTILINE
)
_FIELD = re.compile(r"^    (\w+): (?!ClassVar)(?!.*(?:_HIDDEN|init=False))", re.MULTILINE)


@dataclass(frozen=True)
class Declared:
    """A class with a ``name``, as its source has it.

    Parameters
    ----------
    target : str
        Where it is: ``"module:Class"``.
    bases : frozenset of str
        The names of all classes that it is derived from, in the same folder and directly outside.
    facts : dict
        Its class attributes that are plain values, those of its bases included.
    fields : tuple of str
        Its annotated attributes that are settings, those of its bases first.
    own : frozenset of str
        The facts that it says itself.
    """

    target: str
    bases: frozenset[str]
    facts: dict[str, Any]
    fields: tuple[str, ...]
    own: frozenset[str]


@cache
def declared_classes(package: str, *files: str) -> tuple[Declared, ...]:
    """Return the classes of a package's own files that say ``name = "…"`` themselves, by file and place.

    >>> [each.facts["name"] for each in declared_classes("longshot.tasks", "shapes")]
    ['fixed', 'any', 'like', 'all']
    """
    folder = PACKAGE.joinpath(*package.split(".")[1:])
    paths = [folder / f"{name}.py" for name in files] or sorted(folder.glob("*.py"))
    sources = {path.stem: path.read_text("utf-8") for path in paths}
    seen: dict[str, Declared] = {}
    waiting = [
        (stem, match) for stem, text in sources.items() if " = " in text for match in _CLASS.finditer(text)
    ]
    own = {match[1] for _, match in waiting}
    while waiting:
        later = []
        for stem, match in waiting:
            parents = [base.strip().rpartition(".")[2] for base in (match[2] or "").split(",")]
            if any(parent in own and parent not in seen for parent in parents):
                later.append((stem, match))
            else:
                seen[match[1]] = _read(f"{package}.{stem}:{match[1]}", match[3], parents, seen)
        if len(later) == len(waiting):
            break
        waiting = later
    ordered = [
        seen[match[1]] for text in sources.values() for match in _CLASS.finditer(text) if match[1] in seen
    ]
    return tuple(each for each in ordered if "name" in each.own)


def _read(target: str, source: str, parents: list[str], seen: dict[str, Declared]) -> Declared:
    body = _DOCSTRING.sub("", source.partition("\n    def ")[0], count=1)
    facts = {name: ast.literal_eval(value) for name, value in _FACT.findall(body)}
    above = [seen[parent] for parent in parents if parent in seen]
    inherited: dict[str, Any] = {}
    for parent in reversed(above):
        inherited |= parent.facts
    fields = dict.fromkeys(name for parent in above for name in parent.fields)
    fields |= dict.fromkeys(_FIELD.findall(body))
    return Declared(
        target,
        frozenset(parents).union(*(parent.bases for parent in above)),
        inherited | facts,
        tuple(fields),
        frozenset(facts),
    )
