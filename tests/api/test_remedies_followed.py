"""Remedies are followed: the mistake is made, the sentence is read, what it says is done, and the mistake is gone.

A kind of remedy is a call or a parameter with a value that sentences of the library mention, ``{sample(DATASET)}`` or
``{allow_repeats:True}``. Every kind is followed once, here or in the ``cases`` of a wing, or stands in
``NOT_FOLLOWED`` with the reason; a new kind
fails the last test until it is one or the other. What is between braces is taken from the error itself, so that a
sentence that names something else, or a value that does not help, fails.
"""

from __future__ import annotations

import ast
import pkgutil
import shutil
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import longshot
from longshot.base import UserError
from longshot.data import check_dataset
from longshot.models import weights_file
from remedies import PLAIN, QUICK, TRAINING, Mention, Mistake, errors, library, mentions, texts
from wings import wing_cases


def results_path(**settings: Any) -> Path:
    return longshot.evaluate("plain.parquet", backbones="pixels", methods="protonet", **settings).path


def two_runs(testbed: str | None = None) -> Any:
    longshot.evaluate(["plain.parquet", "other.parquet"], backbones="pixels", methods="protonet", out="both")
    longshot.evaluate("plain.parquet", backbones="pixels", methods="ridge", out="single")
    return longshot.compare("both", "single", testbed=testbed)


def many_tasks(tasks: int = 3) -> Any:
    bed = longshot.sample("photos", **{**QUICK, "tasks": tasks})
    run = longshot.evaluate(bed, backbones="pixels", methods=["protonet", "ridge"])
    return longshot.compare(run, methods="protonet", against="ridge", fail_if_worse=50.0, undecided="pass")


def checked_photos(skip_bad: bool = False) -> None:
    if skip_bad:
        longshot.embed(longshot.open_dataset("photos", skip_bad=True), "pixels")
    else:
        check_dataset("photos").raise_if_bad()


def damaged_photo() -> None:
    Path("photos/round/gold/000.jpg").write_bytes(b"no picture")


class TooLarge:
    """Features that half precision cannot hold."""

    def __new__(cls) -> Any:
        import torch

        class Large(torch.nn.Module):
            preprocessing = "decode|resize(8,8)|value_range(0,255)"

            def forward(self, images: torch.Tensor) -> torch.Tensor:
                return images.flatten(1) * 1e6

        return Large()


def tiny_photos() -> None:
    """Two classes of two pictures: four tasks of one shot and one query."""
    for name in ("gold", "olive"):
        Path("tiny", name).mkdir(parents=True)
        for number in range(2):
            shutil.copy(f"photos/round/{name}/00{number}.jpg", f"tiny/{name}")


def own_tree() -> None:
    ids = longshot.open_dataset("photos").class_ids
    edges = [
        "root,warm",
        "root,cold",
        *(f"{'warm' if n % 2 else 'cold'},{name}" for n, name in enumerate(ids)),
    ]
    Path("tree.csv").write_text("parent,child\n" + "\n".join(edges) + "\n")


def moved() -> None:
    from longshot.data import add_dataset

    shutil.copytree("photos", "elsewhere")
    add_dataset("pets", "elsewhere")
    Path("elsewhere").rename("new-home")


def other_photos() -> None:
    shutil.copytree("photos", "kept")
    (Path("photos") / longshot.Testbed.load("plain.parquet")[0].support[0]).unlink()


MISTAKES = [
    # calls
    Mistake("sample()", "evaluate", ("none.parquet",), PLAIN, {"DATASET": "photos"}, QUICK),
    Mistake(
        "embed()", "sample", ("photos",), {**QUICK, "instances": "difficult", "features": "none.npy"},
        {"DATASET": "photos"}, use=lambda verb, features: features.save("none.npy"),
    ),
    Mistake("evaluate()", "report", ("none", "page.html"), more={"testbeds": "plain.parquet", **PLAIN, "out": "none"}),
    Mistake("list_methods()", "evaluate", ("plain.parquet",), {"backbones": "pixels", "methods": 3},
            use=lambda verb, rows: verb(methods=rows[0]["name"])),
    Mistake("list_backbones()", "embed", ("photos", 3),
            use=lambda verb, rows: longshot.embed("photos", rows[0]["name"])),
    Mistake("make_split()", "sample", ("photos",), {**QUICK, "splits": "none.json", "split": "test"},
            {"DATASET": "photos"}, {"random": True, "ratios": (0.5, 0.0, 0.5)}),
    Mistake("train()", weights_file, ("none",), {}, {"DATASET": "photos"},
            {"out": "none", "splits": "parts.json", **TRAINING}, long=True),
    Mistake("data.list_formats()", "open_dataset", ("notes.txt",),
            use=lambda verb, rows: next(row for row in rows if row["format"].startswith("pattern"))),
    Mistake("data.add_dataset()", "open_dataset", ("pets",), fill={"PATH": "new-home"}, prepare=moved),
    Mistake("open_taxonomy()", "make_split", ("photos",), {"semantic": True, "level": 1}, {"DATASET": "photos"},
            use=lambda verb, tree: verb(level=2)),
    # parameters with values
    Mistake("tasks", "sample", ("tiny",), {"tasks": 50, "way": 2, "shot": 1, "query": 1}, prepare=tiny_photos),
    Mistake("allow_repeats", "sample", ("tiny",), {"tasks": 50, "way": 2, "shot": 1, "query": 1}, prepare=tiny_photos),
    Mistake("backbones", "evaluate", ("plain.parquet",), {"backbones": [], "methods": "protonet"}),
    Mistake("methods", "evaluate", ("plain.parquet",), {"backbones": "pixels", "methods": []}),
    Mistake("by", "make_split", ("photos",), {"harder_than": "random", "backbone": "pixels", "way": 2, "shot": 1,
                                              "ratios": (0.5, 0.0, 0.5)}, then="No split of these", long=True),
    Mistake("learnt_accuracy", "make_split", ("photos",), {"learnt_accuracy": 65, "backbone": "pixels", "way": 2,
                                                           "shot": 1, "ratios": (0.5, 0.0, 0.5)},
            then="No split of these", long=True),
    Mistake("backbone", "tune", ("protonet", "plain.parquet"),
            {"search": {"scale": "choose(1.0, 2.0)"}, "trials": 2, "out": "search"}, {"NAME": "pixels"}),
    Mistake("device", "embed", ("photos", "pixels"), {"device": "cuda:99"}),
    Mistake("dtype", "embed", ("photos", TooLarge()), {"dtype": "float16"}),
    Mistake("force", "make_split", ("photos",), {"random": True, "out": "mine.json"},
            prepare=lambda: Path("mine.json").write_text("{}")),
    Mistake("out", results_path, fill={"FOLDER": "kept-run"}),
    Mistake("testbed", two_runs),
    Mistake("verify", "inspect", ("plain.parquet",), {"sample": 5}),
    Mistake("way", "make_split", ("photos",), {"random": True, "backbone": "pixels", "way": 1, "shot": 1}),
    Mistake("shot", "make_split", ("photos",), {"random": True, "backbone": "pixels", "way": 2, "shot": 0}),
    Mistake("split", "sample", ("photos",), {**QUICK, "splits": "parts.json"}),
    Mistake("data.add_dataset()", "embed", ("photos", "pixels"), prepare=damaged_photo),
    Mistake("skip_bad", checked_photos, prepare=damaged_photo),
    Mistake("judge", "sample", ("photos",), {**QUICK, "instances": "difficult"}, {"NAME": "pixels"}),
    Mistake("features", "sample", ("photos",), {**QUICK, "instances": "difficult"}, {"FILE.npy": "photos.npy"},
            prepare=lambda: longshot.embed("photos", "pixels").save("photos.npy")),
    Mistake("instances", "sample", ("photos",), {**QUICK, "instances": "difficult", "judge": "pixels:matching",
                                                 "shot": 1}),
    Mistake("datasets", "evaluate", ("plain.parquet",), PLAIN, {"PATH": "kept"}, prepare=other_photos),
    Mistake("mode", "make_split", ("photos",), {"divergence": 0.1, "backbone": "pixels", "mode": "paper",
                                                "penalty": 1e-6, "hardness": False, "ratios": (0.5, 0.0, 0.5)}),
    Mistake("taxonomy", "sample", ("photos",), {**QUICK, "classes": "siblings", "taxonomy": "wordnet"},
            {"FILE": "tree.csv"}, prepare=own_tree),
    Mistake("nearest", "sample", ("photos",), {**QUICK, "classes": "alike", "judge": "pixels", "way": 4, "nearest": 1}),
    Mistake("classes", "train", ("protonet", "photos"), {"taxonomy": "tree.csv", "out": "trained", **TRAINING},
            prepare=own_tree, long=True),
    Mistake("sample()", many_tasks, fill={"DATASET": "photos"}, more={"way": 2, "shot": 1, "query": 2},
            use=lambda verb, bed: verb(tasks=len(bed))),
]  # fmt: skip

# Kinds that are not followed here, and why.
NOT_FOLLOWED: dict[str, str] = {
    "on": "starts a cluster: tests/base/scale does",
    "allow_download": "downloads weights",
    "class_order": "needs a published list of episodes; tests/tasks/test_published.py gives the file",
    "clip": "needs a training that diverges, and then another; tests/training/test_loop.py does that",
    "audit.review_dataset()": "lists decisions; tests/audit/test_decisions.py makes some and takes them back",
    "audit.leave_out_overlap()": "compares two datasets; tests/audit/test_overlap_command.py",
    "engine": "needs a Python without ONNX Runtime",
    "models.cache_entries()": "needs a full disk",
    "find_overlap()": "needs a comparison of two datasets; tests/audit/test_overlap_files.py makes it anew",
    "index": "needs a Python without FAISS and 100,000 images",
    "measure_attributes()": "the sentence first asks to remove a file by hand; tests/diagnosis measures them again",
    "network": "the remedy is to leave it out",
    "optimiser": "as clip",
    "query": "needs a published list of episodes without queries; tests/tasks/test_published.py",
    "selftest": "runs every method and training twice; tests/api/test_selftest.py",
}


@pytest.fixture
def desk(tmp_path: Path, photos: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with photos that may be damaged, testbeds of them, a run, a split and a taxonomy."""
    shutil.copytree(photos, tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    for name, seed in (("plain", 0), ("other", 1)):
        longshot.sample("photos", **QUICK, seed=seed).save(f"{name}.parquet")
    longshot.make_split("photos", random=True, out="parts.json", ratios=(0.5, 0.0, 0.5))
    Path("notes.txt").write_text("no dataset")
    return tmp_path


def with_value(template: str) -> list[Mention]:
    """Calls, and parameters that have a value."""
    return [each for each in mentions(template) if each.arguments is not None or each.value is not None]


def literal(text: str, fill: Mapping[str, Any]) -> Any:
    """A value of a sentence: a placeholder, a name with one (``birds=PATH``), or what it reads as in Python."""
    if text in fill:
        return fill[text]
    name, equals, value = text.partition("=")
    if equals and value in fill:
        return {name: fill[value]}
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def every_mistake() -> list[Any]:
    """Those of the core above and those of the wings that are here."""
    return [
        pytest.param(mistake, id=mistake.follows, marks=(pytest.mark.long,) if mistake.long else ())
        for mistake in chain(MISTAKES, *wing_cases("MISTAKES"))
    ]


@pytest.mark.parametrize("mistake", every_mistake())
def test_what_a_sentence_says_helps(desk: Path, mistake: Mistake) -> None:
    if mistake.prepare is not None:
        mistake.prepare()
    with pytest.raises(UserError) as caught:
        mistake.run()
    remedies = [each for each in with_value(caught.value.template) if each.kind == mistake.follows]
    assert remedies, f"the sentence does not mention {mistake.follows}: {caught.value}"
    remedy = remedies[-1]  # a fact may mention it before
    if remedy.arguments is None:
        value = literal(str(remedy.value), mistake.fill)
        try:
            mistake.run(**{remedy.name: value})
        except UserError as error:
            if not mistake.then or mistake.then not in str(error):
                raise
        return
    call = pkgutil.resolve_name(f"longshot:{remedy.name}")
    settings = {name: literal(value, mistake.fill) for name, value in remedy.settings.items()}
    made = call(*(literal(word, mistake.fill) for word in remedy.arguments), **{**settings, **mistake.more})
    if mistake.use is not None:
        mistake.use(mistake.run, made)
    if mistake.use is None or "features" in mistake.settings:
        mistake.run()


def kinds() -> dict[str, list[str]]:
    """Kind of remedy → where the library speaks of it: in remedies, and in sentences that have none of their own."""
    places: dict[str, list[str]] = {}
    for name, tree in library():
        for error in errors(tree):
            speaking = error.args[1:] or error.args[:1]
            for argument in (
                *speaking,
                *(keyword.value for keyword in error.keywords if keyword.arg == "remedy"),
            ):
                for line, text in texts(argument):
                    for mention in with_value(text):
                        places.setdefault(mention.kind, []).append(f"{name}:{line}")
    return places


def test_every_kind_of_remedy_is_followed_or_excused() -> None:
    places = kinds()
    followed = {mistake.follows for mistake in chain(MISTAKES, *wing_cases("MISTAKES"))}
    excused = {*chain(NOT_FOLLOWED, *wing_cases("NOT_FOLLOWED"))}
    assert not followed & excused
    open_kinds = {kind: where for kind, where in places.items() if kind not in followed | excused}
    assert not open_kinds, f"follow these, or say why not: {open_kinds}"
    assert excused <= set(places), "no sentence speaks of these any more"
    print(f"{len(followed & set(places))} of {len(places)} kinds followed, {len(excused)} excused")
