"""The ``longshot`` command: finds where a sub-command is and turns mistakes into one sentence."""

from __future__ import annotations

import sys
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
from longshot.cli.faces import face_of

# name → (where in this room its click command is, what it does). A module is imported only when a command of its is
# called, so that `longshot --help` stays fast. Plugins add theirs.
_OWN = {
    "demo": ("demo_command:demo_command", "The whole street on the embedded default: a table and a report."),
    "datasets": ("datasets_commands:datasets_command", "List, add and describe datasets."),
    "backbones": ("embed_commands:backbones_command", "List the backbones that can embed images."),
    "embed": ("embed_commands:embed_command", "Run a backbone over a dataset and keep the features."),
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
    "sample": ("sample_command:command", "Draw tasks into a testbed file."),
    "inspect": ("testbed_commands:inspect_command", "Describe a testbed and check it against its dataset."),
    "methods": ("evaluate_commands:methods_command", "List the methods that learn from a support set."),
    "evaluate": ("evaluate_commands:evaluate_command", "Run methods over testbeds; one result row per task."),
    "compare": ("results_commands:compare_command", "Compare runs task by task; can gate a pipeline."),
    "report": ("results_commands:report_command", "Write a page or a table from the results of a run."),
    "score": ("testbed_commands:score_command", "Score predictions that any code made on a testbed."),
    "doctor": ("machine_commands:doctor_command", "What is installed, which extras, device, cache."),
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
    """Entry point: user mistakes end with one sentence and exit code 2, Ctrl-C with 130."""
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


if __name__ == "__main__":
    run_command_line()
