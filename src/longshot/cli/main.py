"""The ``longshot`` command: finds where a sub-command is, and words mistakes by its flags and commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, ClassVar

import click

from longshot.base import (
    UserError,
    explain_long_names,
    is_screen,
    keep_fonts,
    lend_temporary,
    load_target,
    plugged,
    screen_for_output,
    speak_as,
)

# name → (where in this room its click command is, what it does). A module is imported only when a command of its is
# called, so that `longshot --help` stays fast. Plugins add theirs.
_OWN = {
    "demo": (
        "machine_commands:demo_command",
        "Run everything once on generated images: a table and a report.",
    ),
    "datasets": ("datasets_commands:datasets_command", "List, add and describe datasets."),
    "backbones": ("sample_commands:backbones_command", "List the backbones that can embed images."),
    "embed": ("sample_commands:embed_command", "Run a backbone over a dataset and keep the features."),
    "taxonomy": (
        "taxonomy_command:taxonomy_command",
        "Show class hierarchies and distances between classes.",
    ),
    "train": ("train_commands:train_command", "Train a network on the train classes of a dataset."),
    "tune": ("train_commands:tune_command", "Search for settings on validation tasks."),
    "split": (
        "splits_commands:split_command",
        "Divide classes into train, validation and test, at a chosen distance.",
    ),
    "splits": (
        "splits_commands:splits_command",
        "Compare and draw class splits; class trees against a taxonomy.",
    ),
    "sample": ("sample_commands:sample_command", "Draw tasks into a testbed file."),
    "inspect": ("evaluate_commands:inspect_command", "Describe a testbed and check it against its dataset."),
    "methods": ("evaluate_commands:methods_command", "List the methods that learn from a support set."),
    "evaluate": ("evaluate_commands:evaluate_command", "Run methods over testbeds; one result row per task."),
    "compare": ("results_commands:compare_command", "Compare runs task by task; can gate a pipeline."),
    "report": ("results_commands:report_command", "Write a page or a table from the results of a run."),
    "score": ("evaluate_commands:score_command", "Score predictions that any code made on a testbed."),
    "doctor": ("machine_commands:doctor_command", "Show what is installed: extras, device, cache."),
    "cache": ("machine_commands:cache_command", "Show and prune what Longshot keeps on disk."),
}


@cache
def commands() -> dict[str, tuple[str, str]]:
    """Return every command: name → (``module:attribute`` of a click command, its line in ``longshot --help``)."""
    own = {name: (f"longshot.cli.{target}", line) for name, (target, line) in _OWN.items()}
    return own | plugged("commands") | own  # a plugin takes no name of the core


class _Context(click.Context):
    """Remembers the innermost command, so that a mistake can be told by that command's own flags."""

    latest: ClassVar[click.Context | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _Context.latest = self
        before = speak_as(face_of(self))
        self.call_on_close(lambda: speak_as(before))

    def invoke(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command; where only its -o can be written, temporary files go there.

        Where what it writes goes to the screen, what it says goes to stderr.
        """
        if (out := self.params.get("out")) is not None:
            lend_temporary(out)
        if self.obj is not None and not isinstance(self.command, click.Group):
            self.obj()
        shown = [name for name, value in self.params.items() if isinstance(value, Path) and is_screen(value)]
        if len(shown) > 1:
            raise UserError(f"{{{shown[0]}}} and {{{shown[1]}}} cannot both go to the screen; name a file.")
        with screen_for_output() if shown else nullcontext():
            return super().invoke(*args, **kwargs)


def _remembered(command: click.Command) -> click.Command:
    command.context_class = _Context
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _remembered(inner)
    return command


class LazyGroup(click.Group):
    """A click group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(commands())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        # A command of the core is found without a look at what is installed.
        if name in _OWN:
            return _remembered(load_target(f"longshot.cli.{_OWN[name][0]}"))
        return _remembered(load_target(commands()[name][0])) if name in commands() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _OWN and not args[0].startswith("-") and args[0] not in commands():
            from difflib import get_close_matches

            near = get_close_matches(args[0], commands(), n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"There is no command '{args[0]}'.{hint} See 'longshot --help'.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in commands().items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="longshot", message="longshot %(version)s")
def cli() -> None:
    """Build few-shot image-classification benchmarks of a chosen difficulty and measure any model on them.

    \b
    Try:  longshot demo
    Then: longshot embed ./my_photos --backbone efficientnet-lite0
          longshot sample ./my_photos --tasks 600 --way 5 --shot 5 --query 10 -o easy.parquet
          longshot evaluate easy.parquet --backbone efficientnet-lite0 --method protonet -o runs/first
          longshot report runs/first -o report.html
    """


def _prepare_libraries() -> None:
    """Settle what libraries look for on their first use, in a process that is Longshot's own.

    Matplotlib keeps its list of fonts in the cache. pyarrow looks for pandas when its first array is made, to know a
    Series when it meets one: 0.2 s where pandas happens to be installed, a third of a small command. Commands hand it
    no Series, so it finds none; ``to_pandas``, ``Table.from_pandas`` and ``import pandas`` look again.
    """
    keep_fonts()
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())
        try:
            import pyarrow as pa

            pa.array([])
        finally:
            del sys.meta_path[0]


class _NoPandas(MetaPathFinder):
    """Says of pandas that it is not there."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out here", name=name)


def run_command_line() -> None:
    """Run the command line: user mistakes end with one sentence and exit code 2, Ctrl-C with 130."""
    for stream in (sys.stdout, sys.stderr):  # a file name that is not UTF-8 must not break a message
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        with explain_long_names():
            cli.main(standalone_mode=False, obj=_prepare_libraries)
    except UserError as error:
        print(f"error: {error.render(face_of(_Context.latest))}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print("interrupted; finished work is kept, the same command goes on from there", file=sys.stderr)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except BrokenPipeError:  # `longshot … | head`
        sys.stderr.close()
        sys.exit(0)


# ---- how the command line words a mistake: parameters as its flags, functions as its commands

# functions of ``longshot`` whose command has another name; plugins say theirs
_COMMAND_OF = {
    "open_dataset": "datasets show",
    "show_dataset": "datasets show",
    "list_datasets": "datasets",
    "training.list_algorithms": "train --list",
    "training.list_spaces": "tune --list",
    "find_overlap": "datasets overlap",
    "get_dataset": "datasets get",
    "identify_dataset": "datasets identify",
    "data.list_downloads": "datasets get --list",
    "find_suspects": "datasets suspects",
    "audit.review_dataset": "datasets review",
    "data.add_dataset": "datasets add",
    "data.check_dataset": "datasets check",
    "data.describe_dataset": "datasets show",
    "data.list_formats": "datasets formats",
    "audit.leave_out_overlap": "datasets without",
    "list_backbones": "backbones",
    "models.cache_entries": "cache",
    "open_taxonomy": "taxonomy show",
    "measure_distances": "taxonomy distances",
    "make_taxonomy": "taxonomy make",
    "make_split": "split",
    "compare_splits": "splits compare",
    "plot_splits": "splits plot",
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
    """Return the command of a function of ``longshot``: ``make_split`` → ``split``."""
    return str(_COMMAND_OF.get(function) or plugged("command_of").get(function, function.replace(".", " ")))


def face_of(context: click.Context | None) -> ShellFace:
    """Return how the command that was called words parameters."""
    if context is None:
        return ShellFace()
    study = context.parent is not None and context.parent.info_name == "study"
    return (StudyFace if study else ShellFace)(context.command)


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Yield (words, command) of every command and sub-command: ``splits compare`` and its like."""

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
    """Return parameter → how it is given: an option's flag, an argument's place in capitals."""
    return {str(param.name): _flag_of(param) for param in command.params}


def _flag_of(param: click.Parameter) -> str:
    """Choose of an option's names the one that is like its parameter, as --judge beside --backbone."""
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
    """Return the flag that a parameter has in the first command that has it."""
    for _, command in every_command():
        flag = _flags(command).get(name, "")
        if flag.startswith("-"):
            return flag
    return f"--{name.replace('_', '-')}"


if __name__ == "__main__":
    run_command_line()
