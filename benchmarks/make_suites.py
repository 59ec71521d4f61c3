"""Make the suites that come with Longshot: ``python -m benchmarks.make_suites cub-1 IMAGES -o FOLDER``.

IMAGES is the set as its makers publish it. Its images are linked into one folder per class, under the names that the
tasks then have; testbeds are drawn from there by ``longshot.sample`` with the settings below, and written as a suite.
The same images give the same hashes again. ``--specs`` is the folder with Meta-Dataset's ``…_dataset_spec.json``, for
suites of its sources. ``--board`` measures the frozen methods on a suite and writes the board that ships with it;
``--tasks 8 --judges pixels`` makes a small one quickly.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import longshot
from longshot.base import UserError
from longshot.publish.leaderboard import write_shipped_board
from longshot.publish.suite import Suite, SuiteKind, open_suite, write_suite

METHODS = ("protonet", "ridge", "logistic", "nearest-neighbour", "simpleshot", "tim")
JUDGES = ("efficientnet-lite0", "efficientnet-lite1")
LADDER = (0.9, 0.75, 0.6, 0.45)


@dataclass(frozen=True)
class Recipe:
    """A set of images, which of it is used, and under which names."""

    about: str
    licence: str
    images: str  # how to get them
    links: Callable[
        [Path], Iterable[tuple[str, Path]]
    ]  # the set's folder → class/name of an image and where it lies
    attributes: Callable[[str], Mapping[str, str]] | None = None  # of an image, from its name
    settings: Mapping[str, Any] = field(default_factory=dict)  # of all testbeds
    further: Mapping[str, tuple[SuiteKind, Mapping[str, Any]]] = field(
        default_factory=dict
    )  # testbeds of its own
    judges: Sequence[str] = JUDGES  # on the ladder the first judges, the others calibrate
    held_out: Sequence[str] = ("efficientnet-lite2",)  # certifies the ladder
    meta_dataset: str = ""  # the source that it is: its own episodes are replayed as one more testbed


def _class_folders(*parts: str, classes: Sequence[str] = ()) -> Callable[[Path], Iterable[tuple[str, Path]]]:
    """List the images of class folders, those of several parts together."""

    def links(root: Path) -> Iterable[tuple[str, Path]]:
        for part in parts:
            for folder in sorted((root / part).iterdir()):
                if folder.is_dir() and (not classes or folder.name in classes):
                    for file in sorted(folder.iterdir()):
                        yield f"{folder.name}/{file.name}", file

    return links


_CUB_TEST = (
    "008.Rhinoceros_Auklet", "009.Brewer_Blackbird", "015.Lazuli_Bunting", "020.Yellow_breasted_Chat",
    "028.Brown_Creeper", "030.Fish_Crow", "035.Purple_Finch", "039.Least_Flycatcher", "045.Northern_Fulmar",
    "046.Gadwall", "082.Ringed_Kingfisher", "085.Horned_Lark", "094.White_breasted_Nuthatch",
    "101.White_Pelican", "103.Sayornis", "112.Great_Grey_Shrike", "118.House_Sparrow", "122.Harris_Sparrow",
    "128.Seaside_Sparrow", "133.White_throated_Sparrow", "134.Cape_Glossy_Starling", "137.Cliff_Swallow",
    "147.Least_Tern", "148.Green_tailed_Towhee", "163.Cape_May_Warbler", "168.Kentucky_Warbler",
    "169.Magnolia_Warbler", "170.Mourning_Warbler", "193.Bewick_Wren", "194.Cactus_Wren",
)  # fmt: skip
_CIFAR_FS_TEST = (
    "baby", "bed", "bicycle", "chimpanzee", "fox", "leopard", "man", "pickup_truck", "plain", "poppy",
    "rocket", "rose", "snail", "sweet_pepper", "table", "telephone", "wardrobe", "whale", "woman", "worm",
)  # fmt: skip
_DOMAINS = ("photo", "art_painting", "cartoon", "sketch")


_MOST = 100  # images of a kind of thing in a domain: sketches would be half of PACS


def _pacs_links(root: Path) -> Iterable[tuple[str, Path]]:
    for domain in _DOMAINS:
        for folder in sorted((root / domain).iterdir()):
            for file in sorted(folder.iterdir())[:_MOST]:
                yield f"{folder.name}/{domain}-{file.name}", file


def _omniglot_links(root: Path) -> Iterable[tuple[str, Path]]:
    for alphabet in sorted((root / "images_evaluation").iterdir()):
        for character in sorted(alphabet.iterdir()):
            for file in sorted(character.iterdir()):
                yield f"{alphabet.name}/{character.name}/{file.name}", file


def _tiny_links(root: Path) -> Iterable[tuple[str, Path]]:
    """List the validation images under their class: networks trained on ImageNet have not seen them."""
    lines = (root / "val" / "val_annotations.txt").read_text().splitlines()
    for file, wnid, *_ in sorted(line.split("\t") for line in lines):
        yield f"{wnid}/{file}", root / "val" / "images" / file


def _grocery_links(root: Path) -> Iterable[tuple[str, Path]]:
    for file in sorted((root / "test").rglob("*.jpg")):
        yield str(file.relative_to(root / "test")), file


_TURN, _PHOTOS = 0.8, 40  # the first four fifths of a film are used: most films run on after a whole turn


def _fruits_links(root: Path) -> Iterable[tuple[str, Path]]:
    """List forty photographs of the first axis, at equal angles, named by the side that they show.

    A film shows one turn and up to a fifth of the next. Two gaps lie between the sides, so that no photograph of one
    is a neighbour of one of the other. The makers' parts hold some angles each and are taken together.
    """
    for folder in sorted((root / "Training").iterdir()):
        frames: dict[int, Path] = {}
        for part in ("Training", "Test"):
            for file in (root / part / folder.name).glob("*_100.jpg"):
                if file.name.removesuffix("_100.jpg").isdigit():
                    frames.setdefault(int(file.name.removesuffix("_100.jpg")), file)
        for number in range(_PHOTOS):
            frame = int(number * _TURN * (max(frames) + 1) / _PHOTOS)
            half, position = divmod(number, _PHOTOS // 2)
            side = "between" if position < 2 else ("front", "back")[half]
            if frame in frames:
                yield f"{folder.name}/{side}-{frame:03}.jpg", frames[frame]


def _shift(name: str, references: str, queries: str, way: int) -> tuple[SuiteKind, Mapping[str, Any]]:
    """Ask for tasks with references of one value of an attribute and queries of another."""
    wheres = {"support_where": f"{name} == {references}", "query_where": f"{name} == {queries}"}
    return "shifted", {"way": way, "shot": 5, "tasks": _OWN_TASKS, "instances": "shifted", **wheres}


def _by_meaning(**choice: str) -> tuple[SuiteKind, Mapping[str, Any]]:
    """Ask for tasks whose classes are chosen by WordNet."""
    return "varied", {"shot": 5, "tasks": _OWN_TASKS, "taxonomy": "wordnet", **choice}


_QUARTERS = ("0:88.3", "88.3:93.1", "93.1:98.7", "98.7:")  # of the coarsity of 2,000 uniform tasks
_OWN_TASKS = 100  # of a testbed that one suite alone has
SMALL = {  # the networks for pictures that have few pixels
    "judges": tuple(f"{judge}(size=128)" for judge in JUDGES),
    "held_out": ("efficientnet-lite2(size=128)",),
}

RECIPES: dict[str, Recipe] = {
    "cub-1": Recipe(
        "CUB-200-2011: photographs of birds, the 30 test classes of Meta-Dataset's split of cu_birds. Look-alikes of "
        "one family; the bird fills little of many pictures. Not for whoever trained on ImageNet's birds without a "
        "word on it.",
        "The photographs belong to their takers; research use, no redistribution.",
        "Get CUB-200-2011 from its makers (longshot datasets get cu-birds).",
        _class_folders("train", "test", classes=_CUB_TEST),
    ),
    "cifar100-1": Recipe(
        "CIFAR-100: 32-pixel photographs of 100 kinds of things, the test images of the 20 test classes of CIFAR-FS; "
        "small pictures, so it says little about detail.",
        "Not stated by its makers; for research.",
        "Get CIFAR-100 (longshot datasets get cifar100); any lossless copy will do.",
        _class_folders("test", classes=_CIFAR_FS_TEST),
    ),
    "pacs-1": Recipe(
        "PACS: seven kinds of things as photographs, paintings, cartoons and sketches. Tasks over all four, and twelve "
        "shifts: references of one domain, queries of another. Over four domains networks for photographs do not "
        "reach the upper steps of the ladder, which are left out, and are near guessing on its difficult tasks, where "
        "16 % of the references of a query's own class share its domain and 27 % of the others (25 % in uniform ones).",
        "Research use.",
        "Get PACS from its makers.",
        _pacs_links,
        attributes=lambda name: {"domain": name.split("/")[1].split("-")[0]},
        further={
            f"{references}-to-{queries}": _shift("domain", references, queries, 7)
            for references in _DOMAINS
            for queries in _DOMAINS
            if references != queries
        },
    ),
    "omniglot-1": Recipe(
        "Omniglot: drawings of characters, the 20 evaluation alphabets (659 characters of 20 drawings), which are the "
        "test classes of Meta-Dataset's split. Strokes on white: it says nothing about texture or colour. "
        "Networks for photographs saw 128 pixels; they do not reach the ladder's upper step, which is left out.",
        "MIT",
        "Get Omniglot from its makers (longshot datasets get omniglot).",
        _omniglot_links,
        settings={"copies": "equal"},
        **SMALL,  # type: ignore[arg-type]
        meta_dataset="omniglot",
    ),
    "tiny-1": Recipe(
        "Tiny-ImageNet-200: 64-pixel photographs, the 50 validation images of each of its 200 classes, which networks "
        "trained on ImageNet have not seen; but they know its classes. Four testbeds are the quarters of uniform tasks "
        "by WordNet's coarsity, from the finest (coarsity-1) to the coarsest; semantic draws fine-grained tasks in "
        "which all classes appear about equally often. Networks for photographs saw 128 pixels; they do not reach the "
        "ladder's upper step, which is left out. Only equal pictures count as copies.",
        "ImageNet's terms: research and education.",
        "Get Tiny-ImageNet-200 from its makers.",
        _tiny_links,
        settings={"copies": "equal"},
        **SMALL,  # type: ignore[arg-type]
        further={
            "semantic": _by_meaning(classes="semantic"),
            **{
                f"coarsity-{quarter + 1}": _by_meaning(coarsity=band)
                for quarter, band in enumerate(_QUARTERS)
            },
        },
    ),
    "grocery-1": Recipe(
        "Grocery Store: photographs of fruits, vegetables and packages taken in shops, the test images of 77 of its 81 "
        "classes; four have too few. Packages differ in print, fruits in little. Twelve images whose labels both "
        "judges doubt are left out. Look-alike classes with difficult single supports are not hard enough for the "
        "ladder's lowest step, which is left out.",
        "MIT",
        "Get the Grocery Store dataset from its makers (github.com/marcusklasson/GroceryStoreDataset).",
        _grocery_links,
        settings={"drop_small": True},
    ),
    "fruits-1": Recipe(
        "Fruits-360: 131 fruits and vegetables, each of them one object on a turntable before white, in forty "
        "photographs from the first four fifths of its film (most films run on after a whole turn). Two shifts: "
        "references of the front, queries of the back. It asks whether a known object is recognised from another side, "
        "not what kind of thing it is. Networks for photographs saw 128 pixels and are near the ceiling, so the ladder "
        "has its upper step alone.",
        "MIT",
        "Get Fruits-360 from its makers (github.com/Horea94/Fruit-Images-Dataset).",
        _fruits_links,
        attributes=lambda name: {"side": name.split("/")[1].split("-")[0]},
        settings={"copies": "equal"},  # neighbours on a turntable look like copies
        **SMALL,  # type: ignore[arg-type]
        further={
            "front-to-back": _shift("side", "front", "back", 5),
            "back-to-front": _shift("side", "back", "front", 5),
        },
    ),
}


def testbed_settings(
    judges: Sequence[str], steps: Sequence[float] = LADDER, held_out: Sequence[str] = ()
) -> dict[str, tuple[SuiteKind, dict[str, Any]]]:
    """Return the testbeds that every suite has: name → its kind and what ``longshot.sample`` is asked for."""
    beds: dict[str, tuple[SuiteKind, dict[str, Any]]] = {}
    for shot in (5, 1):
        beds[f"easy-{shot}"] = "easy", {"shot": shot, "instances": "easy", "judge": list(judges)}
        beds[f"uniform-{shot}"] = "uniform", {"shot": shot}
        beds[f"alike-{shot}"] = "alike", {"shot": shot, "classes": "alike", "judge": list(judges)}
        beds[f"difficult-{shot}"] = (
            "difficult",
            {"shot": shot, "instances": "difficult", "judge": list(judges)},
        )
        alike_and_difficult = {"classes": "alike", "instances": "difficult", "judge": list(judges)}
        beds[f"both-{shot}"] = "both", {"shot": shot, **alike_and_difficult}
    for accuracy in steps:
        ingredients = "easy,classes,supports,shots"  # all of them 5-way
        panel = {"judge": list(judges[:1]), "calibrate": list(judges[1:]), "held_out": list(held_out)}
        aim = {"shot": 5, "target_accuracy": accuracy, "ingredients": ingredients, **panel}
        beds[f"at-{100 * accuracy:.0f}"] = "ladder", aim
    return beds


def link_images(recipe: Recipe, source: Path, folder: Path) -> Path:
    """Link the images of a set into one folder per class; return that folder."""
    rows = ["path," + ",".join(recipe.attributes("a/photo-b")) if recipe.attributes else ""]
    for name, file in recipe.links(source):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            os.link(file, target)
        if recipe.attributes:
            rows.append(f"{name}," + ",".join(recipe.attributes(name).values()))
    if recipe.attributes:
        (folder / "attributes.csv").write_text("\n".join(rows) + "\n")
    return folder


def make(
    name: str,
    source: Path,
    out: Path,
    *,
    tasks: int,
    judges: Sequence[str],
    steps: Sequence[float],
    specs: Path | None = None,
) -> Suite:
    """Draw the testbeds of a suite from a set's images, and write it; testbeds that are there are not drawn again."""
    recipe = RECIPES[name]
    judges = judges or recipe.judges
    dataset = link_images(recipe, source, out / "images" / name.rpartition("-")[0])
    kinds: dict[str, SuiteKind] = {}
    testbeds = {}
    beds = {**testbed_settings(judges, steps, recipe.held_out), **recipe.further, **_replays(recipe, specs)}
    for bed, (kind, settings) in beds.items():
        path = out / "testbeds" / name / f"{bed}.parquet"
        if not path.exists():
            print(f"{name}: drawing {bed}", flush=True)
            # The same images are doubted for every testbed: tasks of one number then have the same queries.
            usual: dict[str, Any] = {"way": 5, "query": 10, "suspects": list(judges)}
            shape = {} if "replay" in settings else usual
            asked_for = {"tasks": tasks, "seed": 0, **shape, **recipe.settings, **settings}
            asked_for["tasks"] = min(asked_for["tasks"], tasks)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                longshot.sample(dataset, out=path, **asked_for)
            except UserError as error:
                if kind != "ladder":
                    raise
                print(
                    f"{name}: no {bed}: {error}", flush=True
                )  # more than easy tasks give, or less than hard ones
                continue
        kinds[bed], testbeds[bed] = kind, longshot.Testbed.load(path)
    options = " --specs SPECS" if recipe.meta_dataset else ""
    command = f"python -m benchmarks.make_suites {name} IMAGES{options} -o FOLDER"
    facts = (recipe.licence, recipe.images, command)
    suite = Suite(name, "1", recipe.about, METHODS[:2], testbeds, kinds, *facts)
    write_suite(suite, out / name)
    return open_suite(out / name)


def _replays(recipe: Recipe, specs: Path | None) -> dict[str, tuple[SuiteKind, Mapping[str, Any]]]:
    """Ask for Meta-Dataset's own episodes of the set's test classes, where it is a source."""
    if not recipe.meta_dataset:
        return {}
    if specs is None:
        raise UserError("This set is a source of Meta-Dataset", "name the folder of its specs with --specs")
    spec = specs / f"{recipe.meta_dataset}_dataset_spec.json"
    return {"meta-dataset": ("varied", {"replay": spec, "split": "test", "tasks": _OWN_TASKS, "seed": 1234})}


def write_board(suite: Suite, dataset: Path, models: Sequence[str], out: Path) -> None:
    """Measure the frozen methods of every model on a suite, and write the board beside it."""
    card = longshot.bench(
        models, suite=suite, methods=METHODS, out=out, datasets={suite.datasets[0]: dataset}
    )
    assert suite.folder is not None
    path = write_shipped_board(card.board, suite.folder)
    print(f"{path}: {len(card.board.entries)} entries, {path.stat().st_size / 1e3:.0f} kB")


def main() -> None:
    """Read the command line and make one suite."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=list(RECIPES))
    parser.add_argument("images", type=Path, help="the set as its makers publish it")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--judges", nargs="+", default=[], help="in place of the recipe's")
    parser.add_argument("--specs", type=Path, help="Meta-Dataset's specifications of its sources")
    parser.add_argument("--ladder", nargs="*", type=float, default=list(LADDER))
    parser.add_argument(
        "--board", nargs="+", metavar="MODEL", default=[], help="measure these, and write the board"
    )
    options = parser.parse_args()
    suite = make(
        options.name, options.images, options.out,
        tasks=options.tasks, judges=options.judges, steps=options.ladder, specs=options.specs,
    )  # fmt: skip
    for bed, testbed in suite.testbeds.items():
        print(f"{suite.name}/{bed}: {len(testbed)} tasks, {testbed.content_hash[:12]}")
    if options.board:
        folder = options.out / "images" / options.name.rpartition("-")[0]
        write_board(suite, folder, options.board, options.out / "bench" / suite.name)


if __name__ == "__main__":
    main()
