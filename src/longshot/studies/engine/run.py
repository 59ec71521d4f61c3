"""Run a study: draw, evaluate, tables, figures, report; each step only where something is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.core.files import write_text
from longshot.studies.engine.folder import Folder
from longshot.studies.engine.presets import RECIPES, Study
from longshot.studies.semantic.scores import measured

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.evaluation.results import Results
    from longshot.studies.engine.tables import TableFile
    from longshot.testbeds.testbed import Testbed

# options of 'longshot sample' in its sentences → settings of a study
_OPTIONS = {
    r"--tasks (\d+)": r"--set tasks=\1",
    r"--tasks\b": "--set tasks=…",
    r"--alpha\b": "--set alpha=…",
    r"--beta\b": "--set beta=…",
    r"--drop-small\b": "--set drop_small=true",
    r"--allow-repeats\b": "--set allow_repeats=true",
    r"--shot\b": "--set shots=…",
    r"--query\b": "--set query=…",
    r"--way\b": "--set way=…",
}


@dataclass(frozen=True)
class StudyOutcome:
    """What a study left in its folder."""

    path: Path
    notes: Sequence[str]
    did: Sequence[dict[str, str]]
    tables: Sequence[TableFile]
    figures: Sequence[str]


def open_data(study: Study, texts: Sequence[str]) -> Any:
    """What a study runs on: one dataset, or what its recipe makes of several (``NAME=PATH``)."""
    from longshot.datasets import open_dataset

    recipe: Any = import_module(RECIPES[study.recipe])
    if hasattr(recipe, "open_data"):
        return recipe.open_data(study.settings, texts)
    if len(texts) != 1:
        raise UserError(f"The study '{study.name}' takes one dataset and {len(texts)} were given.")
    return open_dataset(texts[0])


def run_study(
    study: Study, dataset: Any, out: Path, *, device: str = "auto", workers: int | None = None
) -> StudyOutcome:
    """Run the study on a dataset (see ``open_data``) into ``out``: testbeds/, run/, tables/, figures/ and report.html.

    The same call again does only what is missing; with other methods or another backbone it extends the run and writes
    the tables and figures for those.
    """
    from longshot.evaluation.inputs import backbone_name
    from longshot.evaluation.runner import evaluate

    recipe: Any = import_module(RECIPES[study.recipe])
    if hasattr(recipe, "run"):  # more than testbeds and methods, such as training
        outcome: StudyOutcome = recipe.run(study, dataset, out, device=device, workers=workers)
        return outcome
    settings = study.settings
    plan = recipe.plan(settings, dataset)
    folder = Folder(out, study, {"name": dataset.name, "fingerprint": dataset.fingerprint})
    folder.facts["notes"] = list(plan.notes)
    folder.save()
    testbeds = {name: drawn(folder, name, draw) for name, draw in plan.draws.items()}
    methods = method_calls(settings)
    results = evaluate(
        testbeds,
        backbones=settings["backbone"],
        methods=methods,
        out=out / "run",
        datasets={dataset.name: dataset},
        device=device,
        workers=workers,
        seed=settings["seed"],
    )
    rows = measured(results, testbeds, backbone_name(settings["backbone"]), methods, settings["seed"])
    tables: list[TableFile] = recipe.tables(settings, testbeds, rows)
    figures = recipe.figures(settings, testbeds, rows)
    return finish(study, dataset, folder, results, tables, figures, plan.notes)


def finish(
    study: Study,
    dataset: Dataset,
    folder: Folder,
    results: Results,
    tables: list[TableFile],
    figures: Mapping[str, Callable[[Path], None]],
    notes: Sequence[str],
    others: Sequence[Dataset] = (),
    name: str | None = None,
) -> StudyOutcome:
    """Tables, figures and the page, each written only where something changed.

    ``figures`` draw to a path without suffix; ``others`` are further datasets whose pictures the page shows; ``name``
    stands in the page's title, by default the dataset's.
    """
    out = folder.path
    hashes = {facts["name"]: content_hash for content_hash, facts in results.run["testbeds"].items()}
    units = sorted(unit for cell in results.run["cells"] for unit in cell["units"])
    inputs = [study.settings, hashes, units, study.version, version("longshot")]
    texts = {out / "tables" / name: text for table in tables for name, text in table.texts().items()}

    def write_tables() -> None:
        for path, text in texts.items():
            write_text(path, text)

    folder.step("tables", [inputs, list(texts.values())], list(texts), write_tables)
    pictures = [out / "figures" / f"{name}{suffix}" for name in figures for suffix in (".png", ".svg")]

    def draw_figures() -> None:
        for name, draw in figures.items():
            draw(out / "figures" / name)

    folder.step("figures", inputs, pictures, draw_figures)
    folder.step(
        "report", inputs, [out / "report.html"], lambda: _report(study, [dataset, *others], out, name)
    )
    return StudyOutcome(out, notes, folder.did, tables, [str(path.relative_to(out)) for path in pictures])


def estimate_study(
    study: Study, dataset: Any, out: Path, *, device: str = "auto", workers: int | None = None
) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """What evaluating would take in time and disk, and the plan's notes; nothing is written.

    Testbeds that are not in the folder are drawn in memory, which is quick beside the rest.
    """
    from longshot.evaluation.estimates import estimate

    recipe: Any = import_module(RECIPES[study.recipe])
    if hasattr(recipe, "estimate"):
        found: tuple[list[dict[str, Any]], Sequence[str]] = recipe.estimate(
            study, dataset, out, device=device, workers=workers
        )
        return found
    plan = recipe.plan(study.settings, dataset)
    Folder(out, study, {"name": dataset.name, "fingerprint": dataset.fingerprint})
    testbeds = {name: _sampled(draw) for name, draw in plan.draws.items()}
    records = estimate(
        testbeds,
        backbones=study.settings["backbone"],
        methods=method_calls(study.settings),
        out=out / "run",
        datasets={dataset.name: dataset},
        device=device,
        workers=workers,
        seed=study.settings["seed"],
    )
    return records, plan.notes


def method_calls(settings: dict[str, Any]) -> list[str]:
    """The methods of a study as calls; ``all`` are those that work on the features of one backbone."""
    from longshot.methods.registry import list_methods

    if settings["methods"] != "all":
        return list(settings["methods"])
    return [
        method["name"]
        for method in list_methods()
        if method["needs"] == "features" and method["family"] != "several backbones"
    ]


def drawn(folder: Folder, name: str, draw: Callable[[], Testbed]) -> Testbed:
    """The testbed from the folder; drawn when it is not there or damaged."""
    from longshot.testbeds.testbed import Testbed

    path = folder.path / "testbeds" / f"{name}.parquet"
    if path.is_file():
        try:
            testbed = Testbed.load(path)
        except UserError:
            folder.log(f"testbed {name}", "damaged, drawn anew")
        else:
            folder.log(f"testbed {name}", "kept")
            return testbed
    testbed = _sampled(draw)
    testbed.save(path)
    folder.log(f"testbed {name}", "written")
    return testbed


def _sampled(draw: Any) -> Testbed:
    """Draw; a sentence that names an option of 'longshot sample' names the study's setting instead."""
    try:
        testbed: Testbed = draw()
    except UserError as error:
        text = str(error)
        for option, setting in _OPTIONS.items():
            text = re.sub(option, setting, text)
        raise UserError(text) from error
    return testbed


def _report(study: Study, datasets: Sequence[Dataset], out: Path, name: str | None) -> None:
    """The page of the run, with pictures from the datasets at hand."""
    from longshot.core.files import write_text
    from longshot.evaluation.pictures import find_images
    from longshot.reports.data import load
    from longshot.reports.report import render

    images = find_images(datasets={dataset.name: dataset for dataset in datasets})
    title = f"{study.title}: {name or datasets[0].name}"
    write_text(out / "report.html", render(load(out / "run"), images=images, title=title))
