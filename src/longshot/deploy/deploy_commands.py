"""``longshot choose``, ``fit``, ``predict`` and ``export``: from photos to a classifier that is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.base import PATH, UserError, echo_json, is_screen, json_option, print_written, verb_options


@click.command()
@click.argument("dataset", metavar="FOLDER")
@verb_options("choose", {"judge": {"flags": ["--judge"]}})  # -b is the network that chooses
@json_option
def choose_command(dataset: str, as_json: bool, out: Path | None, html: Path | None, **settings: Any) -> None:
    """Choose which photos of FOLDER should be the references of their classes, and say what that is worth.

    \b
    Examples:
      longshot choose toybox --shot 1 -b pixels --judge pixels
      longshot choose ./my_photos --shot 5 -o refs.json --html references.html
      longshot choose ./my_photos --photos 200 -o refs.json

    Networks choose photos that tell the classes apart best. Another network measures them on photos that took no part,
    against random references. 'longshot fit' makes a classifier of them.
    """
    import longshot

    choice = longshot.choose(dataset, out=out, html=html, **settings)
    if as_json:
        echo_json(choice.record())
        return
    click.echo(choice)
    for path in (out, html):
        if path is not None:
            click.echo()
            print_written(path)


@click.command()
@click.argument("dataset", metavar="FOLDER")
@verb_options("fit", {"out": {"required": True}})
@json_option
def fit_command(dataset: str, as_json: bool, out: Path, **settings: Any) -> None:
    """Make a classifier from photos: a folder to ship, with its references, its network and what was measured.

    \b
    Examples:
      longshot fit toybox --backbone pixels -o toys
      longshot fit ./my_photos --references refs.json -o model
      longshot fit ./my_photos --backbone efficientnet-lite2 --method ridge --false-accept 0.02 -o model

    Photos that are no references calibrate its probabilities and set from where on a photo is none of the classes.
    'longshot predict' asks it, 'longshot check' measures it, 'longshot export' writes one ONNX file.
    """
    import longshot

    model = longshot.fit(dataset, out=out, **settings)
    if as_json:
        echo_json(model.facts.model_dump(mode="json"))
    else:
        click.echo(f"{model}\n\n{Path(out).resolve()}")


@click.command()
@click.argument("model", type=PATH)
@click.argument("photos", nargs=-1, required=True, metavar="PHOTOS…")
@verb_options("predict")
@json_option
def predict_command(
    model: Path, photos: tuple[str, ...], as_json: bool, out: Path | None, **settings: Any
) -> None:
    """Answer for PHOTOS (files, folders, zips, URLs) by the classifier in the folder MODEL.

    \b
    Examples:
      longshot predict model photo.jpg
      longshot predict model ./new_photos -o answers.csv
      longshot predict model ./new_photos https://example.org/photos.zip -o answers.html

    Each photo gets a class or 'none of these', the probability of the class and its nearest references. A photo that
    cannot be read is named, and all others are answered.
    """
    import longshot

    answers = longshot.predict(model, list(photos), out=out, **settings)
    if as_json:
        echo_json(answers.rows())
    elif out is None:
        click.echo(answers)
    else:
        click.echo(", ".join(answers.counts()), err=is_screen(out))
        print_written(out)


@click.command()
@click.argument("model", type=PATH)
@verb_options("export")
def export_command(model: Path, onnx: Path, force: bool) -> None:
    """Write the classifier in the folder MODEL as one ONNX file, from decoded pixels to probabilities.

    \b
    Example:
      longshot export model --onnx classifier.onnx

    ONNX Runtime alone runs the file; the model's card has the fifteen lines for it.
    """
    import longshot

    print_written(longshot.export(model, onnx=onnx, force=force))


def refuse_options(settings: dict[str, Any]) -> None:
    """Raise UserError for options of ``check`` that a shipped model has settled."""
    for name in ("backbones", "judge"):
        if settings.get(name):
            raise UserError(
                f"A shipped model has its own network, so {{{name}}} does nothing", f"leave {{{name}}} out"
            )
