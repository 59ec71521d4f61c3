"""``longshot methods``: what can learn from a support set, and whether one's own method keeps the rules."""

from __future__ import annotations

import click

from longshot.cli.common import print_table, shared


@click.group(invoke_without_command=True)
@shared("json")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the methods with their settings and defaults; check your own.

    \b
    Example:
      longshot methods
      longshot methods check mine.py:MyMethod
      longshot evaluate easy.parquet --backbone pixels --method "protonet(distance='cosine')" -o runs/first

    An inductive method looks at one query at a time; a transductive one also at the other queries of its task. The
    network is frozen (the method works on features), adapted to each task, or meta-trained for the method; the last two
    need the images and the network (--backbone), features alone (--features) do not do.
    """
    if context.invoked_subcommand is not None:
        return
    import longshot
    from longshot.models import VARIANTS

    records = longshot.list_methods()
    if as_json:
        print_table(records, as_json=True)
        return
    rows = [
        {
            "name": record["name"],
            "setting": record["setting"],
            "network": record["kind"],
            "needs": record["needs"],
            "family": record["family"],
            "paper": record["paper"],
            "settings": ", ".join(f"{key}={value!r}" for key, value in record["settings"].items()),
        }
        for record in records
    ]
    print_table(
        rows,
        footer="\n"
        + "\n".join(f"--variant {name} ({v.paper}): {', '.join(v.calls)}" for name, v in VARIANTS.items())
        + "\nSet on the command line as in --method \"protonet(distance='cosine')\". Your own: --method "
        'mine.py:MyMethod; a scikit-learn classifier: --method "sklearn:sklearn.svm.SVC(C=1)".',
    )


@command.command()
@click.argument("method")
@shared("json")
def check(method: str, as_json: bool) -> None:
    """Run the common test on METHOD: a name, file.py:MyMethod or sklearn:module.Class, with settings if any.

    \b
    Example:
      longshot methods check protonet
      longshot methods check "mine.py:MyMethod(k=3)"

    Exits with 1 when a rule is broken. A method may refuse tasks with absent classes or of unequal size by raising
    longshot.base.errors.UserError with the reason.
    """
    import longshot
    from longshot.models import get_method

    chosen = get_method(method)
    rows = longshot.check_method(chosen)
    broken = [row for row in rows if row.result == "broken"]
    if as_json:
        print_table([row._asdict() for row in rows], as_json=True)
    else:
        print_table([{"check": row.check, "result": row.result, "rule": row.rule} for row in rows])
        for row in rows:
            if row.reason:
                click.echo(f"\n{row.check}, {row.result}: {row.reason}")
        click.echo(
            f"\n{chosen.call} ({chosen.setting}): {len(rows) - len(broken)} of {len(rows)} rules kept."
        )
    if broken:
        raise SystemExit(1)
