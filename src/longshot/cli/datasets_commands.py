"""``longshot datasets``: list, get, add, describe, check, identify and forget datasets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from longshot.base import (
    UserError,
    dry_run_option,
    echo_json,
    json_option,
    print_table,
    verb_options,
)
from longshot.cli.audit_commands import overlap, review, suspects, without

if TYPE_CHECKING:
    from longshot.data import Dataset

_SHOWN_COPIES = 10
_COPIES = "Which copies to list: equal images and near copies, equal images, none.  "
_COPIES += "[default: apart; over 50,000 images: equal]"


@click.command("get")
@click.argument("name", required=False)
@verb_options(
    "get_dataset", {"to": {"type": click.Path(file_okay=False)}}
)  # an empty text is not the folder here
@click.option("--list", "show", is_flag=True, help="List what can be got, with sizes, licences and studies.")
@dry_run_option
@json_option
def get(
    name: str | None, to: str | None, keep_archives: bool, show: bool, dry_run: bool, as_json: bool
) -> None:
    """Download the published dataset NAME, unpack it and register it under its name.

    \b
    Example:
        longshot datasets get --list
        longshot datasets get omniglot --dry-run
        longshot datasets get omniglot --to ~/data        # then: longshot sample omniglot …
        longshot datasets get hub:OWNER/NAME              # a dataset of the Hugging Face Hub

    Stopped? The same command goes on where it was. Checksums are compared where any are published. Nothing else in
    Longshot downloads a dataset.
    """
    if show:
        _print_downloads(as_json)
        return
    if name is None:
        raise UserError(
            "Getting a dataset needs its name",
            "give a {name} of those that {data.list_downloads()} shows",
        )
    if dry_run:
        _plan(name, to, as_json)
        return
    import longshot

    dataset = longshot.get_dataset(name, to=to, keep_archives=keep_archives)
    _print_registered(dataset, dataset.name, as_json)


def _print_registered(dataset: Dataset, name: str, as_json: bool, note: str = "") -> None:
    """Print what a name stands for from now on."""
    from longshot.data import describe_dataset

    if as_json:
        echo_json(_summary(describe_dataset(dataset)))
        return
    counts = f"{len(dataset.class_ids):,} classes, {len(dataset):,} images"
    click.echo(f"'{name}' is {dataset.source}: {counts}{note}.")


def _print_downloads(as_json: bool) -> None:
    from longshot.data import list_downloads

    rows = list_downloads()
    if as_json:
        echo_json(rows)
        return
    fetched, by_hand = [], []
    for row in rows:
        end = {"studies": ", ".join(row["studies"])}
        shown = {"name": row["name"], "what": row["title"]}
        if row["by_hand"] is None:
            shown |= {"size": row["size"], "checksum": _checksums(row), "licence": row["licence"]}
            fetched.append(shown | end)
        else:
            by_hand.append(shown | {name: row["by_hand"][name] for name in ("where", "why")} | end)
    print_table(fetched)
    click.echo("\nTo be fetched by hand:\n")
    print_table(
        by_hand,
        footer="\nA licence that is not known is not a permission: ask the authors. Then: longshot datasets get NAME",
    )


def _checksums(row: dict[str, Any]) -> str:
    number, files = row["checksums"], row["files"]
    return "published" if number == files else f"of {number} of {files} files" if number else "none"


def _plan(name: str, to: str | None, as_json: bool) -> None:
    from longshot.base import in_bytes
    from longshot.data import plan_download

    plan: dict[str, Any] = plan_download(name, to=to)
    if as_json:
        echo_json(plan)
        return
    print_table(
        [
            {
                "file": file["name"],
                "size": "not known" if file["bytes"] is None else in_bytes(file["bytes"]),
                "checksum": file["checksum"] or "NO CHECKSUM IS PUBLISHED",
                "from": ", then ".join(file["urls"]) or "the Hub",
            }
            for file in plan["files"]
        ],
        title=f"{plan['name']}: {plan['title']} (licence: {plan['licence']})",
        footer=f"\n{plan['size']} to {plan['folder']}, where {in_bytes(plan['free'])} are free; nothing was written.",
    )


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def datasets_command(ctx: click.Context, as_json: bool) -> None:
    """List the datasets that are known, or get, add, describe, check, identify and forget one.

    \b
    Example:
        longshot datasets show toybox
        longshot datasets get --list             # published datasets that can be downloaded
        longshot datasets add birds ./birds      # then: longshot embed birds --backbone pixels
        longshot datasets check ./birds          # decode every image, list the unreadable ones

    A dataset is a folder of images (or a .zip, .tar or .tar.gz of one) with class folders, a table or annotations, a
    .csv, .tsv or .parquet table, a .npz file with images and labels, or the embedded 'toybox'. FORMAT:PATH opens a path
    as something else than it is taken for: 'longshot datasets show PATH' tells what, 'longshot datasets formats' how.
    """
    if ctx.invoked_subcommand is not None:
        return
    import longshot

    rows = longshot.list_datasets()
    if as_json:
        print_table(rows, as_json=True)
        return
    shown = [
        {
            "name": row["name"],
            "classes": _number(row["classes"]),
            "images": _number(row["images"]),
            "left out": _number(row["skipped"] or None),
            "fingerprint": "made on first use" if row["fingerprint"] is None else row["fingerprint"][:12],
            "where": row["source"] + ("" if row["present"] else "  (gone)"),
        }
        for row in rows
    ]
    print_table(shown)


for _inner in (get, overlap, without, suspects, review):
    datasets_command.add_command(_inner)


@datasets_command.command("add")
@click.argument("name")
@click.argument("path")
@verb_options("data.add_dataset", {"form": {"flags": ["--as"]}})
@json_option
def add(name: str, path: str, as_json: bool, **settings: Any) -> None:
    """Remember the dataset at PATH under NAME.

    \b
    Example:
        longshot datasets add birds ./birds
        longshot datasets add clevr ~/tensorflow_datasets --as "vtab(task='clevr-count')"
    """
    from longshot.data import add_dataset

    dataset, before = add_dataset(name, path, **settings)
    _print_registered(dataset, name, as_json, f" (it stood for {before} before)" if before else "")


@datasets_command.command("formats")
@json_option
def formats(as_json: bool) -> None:
    """List the formats of datasets that are opened where they lie, and where people get such data.

    \b
    Example:
        longshot datasets formats
    """
    from longshot.data import list_formats

    print_table(list_formats(), as_json=as_json)


@datasets_command.command("show")
@click.argument("dataset")
@click.option("--classes", "list_classes", is_flag=True, help="Also list the classes with size and split.")
@verb_options("show_dataset")
@json_option
def show(dataset: str, list_classes: bool, as_json: bool, **settings: Any) -> None:
    """Describe DATASET, a name or a path: classes, splits, sizes, copies, unreadable and odd images, attributes.

    \b
    Example:
        longshot datasets show toybox --quick

    Every image is read once, and what was seen is remembered.
    """
    import longshot

    sheet = longshot.show_dataset(dataset, **settings)
    classes = sheet.facts["class_list"]
    if as_json:
        echo_json({**sheet.facts_as_json(), **({"class_list": classes} if list_classes else {})})
        return
    click.echo(str(sheet))
    if list_classes:
        click.echo()
        print_table(classes)


@datasets_command.command("check")
@click.argument("dataset")
@verb_options("data.check_dataset")
@verb_options("sample", {"copies": {"help": _COPIES}}, only="copies")
@json_option
def check(dataset: str, workers: int | None, refresh: bool, copies: str | None, as_json: bool) -> None:
    """Decode every image of DATASET; list those that cannot be read, with exit code 2, and copies of others.

    \b
    Example:
        longshot datasets check toybox
    """
    import longshot
    from longshot.data import check_dataset

    checked = check_dataset(dataset, workers=workers, refresh=refresh)
    groups = None if checked.bad else longshot.audit.find_copies(checked.dataset, copies)[1]
    if as_json:
        bad = [{"key": key, "reason": reason} for key, reason in checked.bad]
        listed = [] if groups is None else groups.table(checked.dataset)
        echo_json({"images": len(checked.dataset), "bad": bad, "copies": listed})
    elif checked.bad:
        print_table([{"image": key, "reason": reason} for key, reason in checked.bad])
    else:
        click.echo(f"All {len(checked.dataset):,} images of '{checked.dataset.name}' can be read.")
    if groups is not None and not as_json:
        listed = groups.table(checked.dataset)
        click.echo(groups.words(checked.dataset.labels) if listed else "None is a copy of another.")
        print_table(listed[:_SHOWN_COPIES])
        if len(listed) > _SHOWN_COPIES:
            click.echo(f"… and {len(listed) - _SHOWN_COPIES:,} more: --json lists all.")
    checked.raise_if_bad()


@datasets_command.command("identify")
@click.argument("dataset")
@click.argument("testbeds", nargs=-1)
@json_option
def identify(dataset: str, testbeds: tuple[str, ...], as_json: bool) -> None:
    """Say which TESTBEDS and known datasets the images of DATASET serve, whatever they are called.

    \b
    Example:
        longshot datasets identify ./birds                # testbeds of this folder and those that come with Longshot
        longshot datasets identify ./birds hard.parquet

    Images are compared by their bytes and by their pixels; what is missing, altered or encoded anew is counted.
    """
    import longshot

    facts = longshot.identify_dataset(dataset, testbeds or None)
    if as_json:
        echo_json(facts)
        return
    click.echo(f"{facts['source']}: {facts['classes']:,} classes, {facts['images']:,} images")
    related = [row for row in facts["testbeds"] if row["altered"] + row["missing"] < row["images"]]
    strangers = len(facts["testbeds"]) - len(related)
    for row in related:
        row["examples"] = ", ".join(row["examples"])
        row["serves"] = "yes" if row["serves"] else "no"
    if strangers:
        click.echo(f"{strangers:,} of {len(facts['testbeds']):,} testbeds have none of these images.")
    if related:
        print_table(related, title="\nTestbeds with these images")
    if facts["datasets"]:
        print_table(facts["datasets"], title="\nRemembered datasets with these images")


@datasets_command.command("forget")
@click.argument("name")
@json_option
def forget(name: str, as_json: bool) -> None:
    """Forget the dataset called NAME, its scan and the record of images left out; the images stay.

    \b
    Example:
        longshot datasets forget birds
    """
    from longshot.data import registry

    source = registry.forget(name)
    click.echo(
        json.dumps({"forgotten": name, "source": source}) if as_json else f"'{name}' ({source}) is forgotten."
    )


def _summary(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts without the list of classes."""
    return {name: value for name, value in facts.items() if name != "class_list"}


def _number(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"
