"""Help in groups: options under headings, the rare ones behind ``--help-all``."""

from __future__ import annotations

from typing import Any

import click


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
