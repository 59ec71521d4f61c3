"""How the command line words a mistake: parameters as its flags, functions as its commands."""

from __future__ import annotations

import click

from longshot.core.errors import UserError

# functions of ``longshot`` whose command has another name
_COMMANDS = {
    "list_datasets": "datasets",
    "find_overlap": "datasets overlap",
    "datasets.add_dataset": "datasets add",
    "datasets.check_dataset": "datasets check",
    "datasets.describe_dataset": "datasets show",
    "datasets.list_formats": "datasets formats",
    "datasets.overlap.leave_out_overlap": "datasets without",
    "competition.create": "compete init",
    "competition.status": "compete status",
    "competition.export_bundle": "compete bundle",
    "competition.check_bundle": "compete validate",
}


class ShellFace:
    """``{tasks:600}`` as ``--tasks 600``, by the options of the command that was called where it has them."""

    def __init__(self, command: click.Command | None = None) -> None:
        options = command.params if command is not None else []
        self._flags = {
            option.name: "-o" if "-o" in option.opts else max(option.opts, key=len)
            for option in options
            if isinstance(option, click.Option)
        }

    def parameter(self, name: str, value: str | None) -> str:
        flag = self._flags.get(name, f"--{name.replace('_', '-')}")
        return flag if value is None or value == "True" else f"{flag} {value}"

    def call(self, name: str, arguments: list[str], settings: dict[str, str]) -> str:
        flags = [self.parameter(key, value) for key, value in settings.items()]
        return f"'{' '.join(['longshot', _COMMANDS.get(name, name.replace('.', ' ')), *arguments, *flags])}'"


class StudyFace(ShellFace):
    """Parameters as settings of a study: ``{tasks:600}`` as ``--set tasks=600``."""

    def parameter(self, name: str, value: str | None) -> str:
        if name in self._flags:
            return super().parameter(name, value)
        text = "…" if value is None else value.lower() if value in ("True", "False") else value
        return f"--set {name}={text}"


def face_of(context: click.Context | None) -> ShellFace:
    """How the command that was called words parameters."""
    if context is None:
        return ShellFace()
    study = context.parent is not None and context.parent.info_name == "study"
    return (StudyFace if study else ShellFace)(context.command)


def sentence(error: UserError, context: click.Context | None) -> str:
    """The error as the command that was called would say it."""
    return error.render(face_of(context))
