"""What packages add to Longshot: commands, methods, backbones, formats of datasets, samplers, studies.

A package names a `Plugin` by an entry point of the group ``longshot.plugins``. Longshot's own wings arrive this way,
and so can anybody's: ``examples/plugin`` is such a package. Everything that a plugin lists is text,
``"module:attribute"``, imported when it is asked for; so the module with the `Plugin` should import nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
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
