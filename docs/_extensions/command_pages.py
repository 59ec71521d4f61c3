"""Pages of the command line, made from the commands themselves: one for each, with all options, also the rare ones."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FOLDER = "reference/cli"


def write_pages(app: Sphinx) -> None:
    """A page for each command, and one that lists them."""
    from longshot.cli.main import commands

    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"| [`longshot {name}`]({name}.md) | {text} |" for name, (_, text) in commands().items()]
    listing = "\n".join(["| command | |", "|---|---|", *rows])
    intro = (
        "For those who look up an option. Made from the commands themselves: the same text as "
        "`longshot COMMAND --help-all`."
    )
    tree = "```{toctree}\n:hidden:\n\n" + "\n".join(commands()) + "\n```\n"
    texts = {"index": f"# Command line\n\n{intro}\n\n{listing}\n\n{tree}"}
    texts |= {name: f"# longshot {name}\n\n```{{longshot-command}} {name}\n```\n" for name in commands()}
    for name, text in texts.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text("utf-8") != text:  # an unchanged page is not read again
            path.write_text(text, encoding="utf-8")
    for path in folder.glob("*.md"):
        if path.stem not in texts:
            path.unlink()


class CommandDirective(SphinxDirective):
    """Usage, text, examples and options of a command, and of the commands below it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from longshot.cli.main import cli

        name = self.arguments[0]
        context = click.Context(cli, info_name="longshot")
        command = cli.get_command(context, name)
        assert command is not None, f"there is no command {name}"
        return list(_described(command, click.Context(command, info_name=name, parent=context)))


def _described(command: click.Command, context: click.Context) -> Iterator[nodes.Node]:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield nodes.literal_block(usage, usage, language="text")
    yield from _paragraphs(inspect.cleandoc(command.help or command.short_help or ""))
    for title, options in _groups(command, context).items():
        yield nodes.paragraph("", "", nodes.strong(title, title))
        yield _options(options, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                below = click.Context(inner, info_name=name, parent=context)
                section = nodes.section(ids=[nodes.make_id(below.command_path)])
                section += nodes.title(below.command_path, below.command_path)
                section += list(_described(inner, below))
                yield section


def _paragraphs(text: str) -> Iterator[nodes.Node]:
    """Click's own marks: ``\\b`` begins what is printed as it stands, ``\\f`` ends the help."""
    for part in text.partition("\f")[0].split("\n\n"):
        if part.startswith("\b\n"):
            yield from _as_it_stands(part.removeprefix("\b\n"))
        elif part.strip():
            flat = " ".join(part.split())
            yield nodes.paragraph(flat, flat)


def _as_it_stands(text: str) -> Iterator[nodes.Node]:
    """A heading such as ``Examples:`` stands above the block."""
    head, _, below = text.partition("\n")
    if head.rstrip().endswith(":") and below:
        yield nodes.paragraph(head, head)
        text = inspect.cleandoc(below)
    yield nodes.literal_block(text, text, language="text")


def _groups(command: click.Command, context: click.Context) -> dict[str, list[click.Option]]:
    groups: dict[str, list[click.Option]] = {}
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden and parameter.name != "help":
            heading = getattr(parameter, "group", None) or getattr(command, "heading", "Options")
            groups.setdefault(heading, []).append(parameter)
    return groups


def _options(options: list[click.Option], context: click.Context) -> nodes.Node:
    listed = nodes.definition_list(classes=["options"])
    for option in options:
        record = option.get_help_record(context)
        if record is not None:
            flags, text = record
            item = nodes.definition_list_item("", nodes.term("", "", nodes.literal(flags, flags)))
            item += nodes.definition("", nodes.paragraph(text, text))
            listed += item
    return listed


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("longshot-command", CommandDirective)
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
