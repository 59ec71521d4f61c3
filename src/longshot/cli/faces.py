"""How the command line words a mistake: parameters as its flags, functions as its commands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import click

from longshot.base import plugged

# functions of ``longshot`` whose command has another name; plugins say theirs
_COMMAND_OF = {
    "open_dataset": "datasets show",
    "list_datasets": "datasets",
    "training.list_algorithms": "train --list",
    "training.list_spaces": "tune --list",
    "find_overlap": "datasets overlap",
    "get_dataset": "datasets get",
    "data.list_downloads": "datasets get --list",
    "find_suspects": "datasets suspects",
    "data.add_dataset": "datasets add",
    "data.check_dataset": "datasets check",
    "data.describe_dataset": "datasets show",
    "data.list_formats": "datasets formats",
    "audit.leave_out_overlap": "datasets without",
    "list_backbones": "backbones",
    "models.cache_entries": "cache",
    "open_taxonomy": "taxonomy show",
    "measure_distances": "taxonomy distances",
    "make_split": "split",
    "compare_splits": "splits compare",
    "list_methods": "methods",
    "check_method": "methods check",
}


class ShellFace:
    """``{tasks:600}`` as ``--tasks 600``, by the options of the command that was called where it has them."""

    def __init__(self, command: click.Command | None = None) -> None:
        self._flags = {} if command is None else _flags(command)

    def parameter(self, name: str, value: str | None) -> str:
        return _written(self._flags.get(name) or _flag_anywhere(name), value)

    def call(self, name: str, arguments: list[str], settings: dict[str, str]) -> str:
        words = command_words(name)
        flags = _flags_of(words)
        shown = [_written(flags.get(key) or _flag_anywhere(key), value) for key, value in settings.items()]
        return f"'{' '.join(['longshot', words, *arguments, *shown])}'"


# what is no setting of any study, but may be said for all that it runs
_ENVIRONMENT = {"allow_download": "LONGSHOT_ALLOW_DOWNLOAD=1 before the command"}


class StudyFace(ShellFace):
    """Parameters as settings of a study: ``{tasks:600}`` as ``--set tasks=600``."""

    def parameter(self, name: str, value: str | None) -> str:
        if name in _ENVIRONMENT:
            return _ENVIRONMENT[name]
        if name in self._flags:
            return super().parameter(name, value)
        text = "…" if value is None else value.lower() if value in ("True", "False") else value
        return f"--set {name}={text}"


def command_words(function: str) -> str:
    """The command of a function of ``longshot``: ``make_split`` → ``split``."""
    return str(_COMMAND_OF.get(function) or plugged("command_of").get(function, function.replace(".", " ")))


def face_of(context: click.Context | None) -> ShellFace:
    """How the command that was called words parameters."""
    if context is None:
        return ShellFace()
    study = context.parent is not None and context.parent.info_name == "study"
    return (StudyFace if study else ShellFace)(context.command)


def every_command() -> Iterator[tuple[str, click.Command]]:
    """(words, command) of every command and sub-command: ``splits compare`` and its like."""
    from longshot.cli.main import cli, commands

    def below(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield words, command
        for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
            yield from below(f"{words} {name}", inner)

    for name in commands():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield from below(name, command)


def _written(flag: str, value: str | None) -> str:
    return flag if value is None or value == "True" else f"{flag} {value}"


def _flags(command: click.Command) -> dict[str, str]:
    """Parameter → how it is given: an option's flag, an argument's place in capitals."""
    return {str(param.name): _flag_of(param) for param in command.params}


def _flag_of(param: click.Parameter) -> str:
    """Of an option's names the one that is like its parameter, as --judge beside --backbone."""
    if not isinstance(param, click.Option):
        return (param.metavar or str(param.name).upper()).strip("[]")
    if "-o" in param.opts:
        return "-o"
    namesake = f"--{param.name}".replace("_", "-")
    return namesake if namesake in param.opts else max(param.opts, key=len)


@cache
def _flags_of(words: str) -> dict[str, str]:
    return next((_flags(command) for name, command in every_command() if name == words), {})


@cache
def _flag_anywhere(name: str) -> str:
    """The flag that a parameter has in the first command that has it."""
    for _, command in every_command():
        flag = _flags(command).get(name, "")
        if flag.startswith("-"):
            return flag
    return f"--{name.replace('_', '-')}"


# Help in groups: options under headings, the rare ones behind ``--help-all``.


class Grouped(click.Option):
    """An option under a heading, its command's without one; a ``rare`` one is shown by ``--help-all`` only."""

    def __init__(self, *args: Any, group: str | None = None, rare: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self.rare = rare


class GroupedCommand(click.Command):
    """A command whose help lists its options under their headings, in the order they were declared.

    Options without a heading of their own stand under ``heading``; those under one of ``rare_groups`` are rare.
    """

    def __init__(
        self, *args: Any, heading: str = "Options", rare_groups: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.heading, self.rare_groups = heading, rare_groups
        show = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all,
            help="Show all options, also the rare ones.",
        )
        self.params.append(show)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        hidden: list[str] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None or not isinstance(param, click.Option):
                continue
            group = getattr(param, "group", None) or self.heading
            rare = getattr(param, "rare", False) or group in self.rare_groups
            if rare and not ctx.meta.get(__name__):
                hidden.append(max(param.opts, key=len))
            else:
                groups.setdefault(group, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)
        if hidden:
            with formatter.section("More, told by --help-all"):
                formatter.write_text(" ".join(hidden))


def _show_all(context: click.Context, _: click.Parameter, wanted_all: bool) -> None:
    if wanted_all and not context.resilient_parsing:
        context.meta[__name__] = True
        click.echo(context.get_help())
        context.exit()
