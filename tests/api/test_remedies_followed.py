"""Remedies are followed: the mistake is made, the sentence is read, what it says is done, and the mistake is gone.

A kind of remedy is a call or a parameter with a value that sentences of the library mention, ``{sample(DATASET)}`` or
``{allow_repeats:True}``. Every kind is followed here once, or stands in ``NOT_FOLLOWED`` with the reason; a new kind
fails the last test until it is one or the other. What is between braces is taken from the error itself, so that a
sentence that names something else, or a value that does not help, fails.
"""

from __future__ import annotations

import ast
import pkgutil
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from api.test_remedies import errors, library, texts

import longshot
from longshot.base import UserError
from longshot.base.errors import _Call, _Parameter, _pieces
from longshot.data import check_dataset
from longshot.models import weights_file

Action = Callable[..., Any]
TRAINING = {"network": "cnn4", "size": 16, "steps": 1, "way": 2, "shot": 1, "query": 2}
QUICK = {"tasks": 3, "way": 2, "shot": 1, "query": 2}


@dataclass(frozen=True)
class Mistake:
    """A call that fails, and what its sentence says to do.

    ``fill`` says what the placeholders of the sentence are (``DATASET`` is nothing that exists); ``more`` keeps the
    call that is followed small; ``use`` makes use of what that call gave, where calling again is not enough.
    """

    follows: str  # "sample()" or "allow_repeats"
    verb: Action | str
    arguments: tuple[Any, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    fill: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    use: Callable[[Action, Any], Any] | None = None
    prepare: Callable[[], Any] | None = None
    then: str = ""  # where the value is an example: the sentence that may follow, about something else

    def run(self, **changed: Any) -> Any:
        verb = pkgutil.resolve_name(f"longshot:{self.verb}") if isinstance(self.verb, str) else self.verb
        return verb(*self.arguments, **{**self.settings, **changed})


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


def served(**settings: Any) -> None:
    longshot.serve(".", port=0, **settings).close()


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


def boards() -> None:
    longshot.release("plain.parquet", out="suite", title="x")
    longshot.bench("pixels", suite="suite", methods="protonet", board="other.json")


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
    Path("photos/round/gold/000.jpg").unlink()


def small_cup() -> None:
    """A competition whose bundle is small: the eight classes of the photos, in three parts."""
    Path("cup").mkdir()
    here = Path("photos").resolve()
    Path("cup/competition.yaml").write_text(
        f"title: small\ndatasets: {{one: {here}, two: {here}/round, three: {here}/square}}\nimage_size: 16\n"
        "shape: {min_way: 2, max_way: 3, min_shot: 1, max_shot: 2, query: 2}\n"
        "phases:\n  feedback: {train: [one], test: [two], tasks: 2}\n  final: {train: [one], test: [three], tasks: 2}\n"
    )


PLAIN: dict[str, Any] = {"backbones": "pixels", "methods": "protonet"}
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
    Mistake("release()", "verify", ("none",), {}, {"TESTBED": "plain.parquet", "FOLDER": "none"}, {"title": "x"}),
    Mistake("train()", weights_file, ("none",), {}, {"DATASET": "photos"},
            {"out": "none", "splits": "parts.json", **TRAINING}),
    Mistake("data.list_formats()", "open_dataset", ("notes.txt",),
            use=lambda verb, rows: next(row for row in rows if row["format"].startswith("pattern"))),
    Mistake("data.add_dataset()", "open_dataset", ("pets",), fill={"PATH": "new-home"}, prepare=moved),
    Mistake("open_taxonomy()", "make_split", ("photos",), {"semantic": True, "level": 1}, {"DATASET": "photos"},
            use=lambda verb, tree: verb(level=2)),
    Mistake("find_suspects()", "sample", ("photos",), {**QUICK, "exclude_suspects": True},
            {"DATASET": "photos", "NAME": "pixels", "FILE": "clean.view.json"},
            use=lambda verb, suspects: longshot.sample("clean.view.json", **QUICK)),
    Mistake("competition.create()", "competition.load", ("cup",)),
    Mistake("competition.status()", "competition.history", ("cup", 7),
            prepare=lambda: longshot.competition.create("cup"), use=lambda verb, rows: rows),
    Mistake("competition.export_bundle()", "competition.check_bundle", ("cup.zip",), {},
            {"FOLDER": "cup", "FILE": "cup.zip"}, prepare=lambda: small_cup()),
    # parameters with values
    Mistake("tasks", "sample", ("tiny",), {"tasks": 50, "way": 2, "shot": 1, "query": 1}, prepare=tiny_photos),
    Mistake("allow_repeats", "sample", ("tiny",), {"tasks": 50, "way": 2, "shot": 1, "query": 1}, prepare=tiny_photos),
    Mistake("backbones", "evaluate", ("plain.parquet",), {"backbones": [], "methods": "protonet"}),
    Mistake("methods", "evaluate", ("plain.parquet",), {"backbones": "pixels", "methods": []}),
    Mistake("by", "make_split", ("photos",), {"harder_than": "random", "backbone": "pixels", "way": 2, "shot": 1,
                                              "ratios": (0.5, 0.0, 0.5)}, then="No split of these"),
    Mistake("learnt_accuracy", "make_split", ("photos",), {"learnt_accuracy": 65, "backbone": "pixels", "way": 2,
                                                           "shot": 1, "ratios": (0.5, 0.0, 0.5)},
            then="No split of these"),
    Mistake("backbone", "explain", ("plain.parquet",), {"intervene": "replace"}),
    Mistake("intervene", "explain", ("plain.parquet",), {"intervene": "pixels", "backbone": np.zeros((240, 2), "f4")}),
    Mistake("device", "embed", ("photos", "pixels"), {"device": "cuda:99"}),
    Mistake("dtype", "embed", ("photos", TooLarge()), {"dtype": "float16"}),
    Mistake("published", "release", ("plain.parquet",), {"out": "bench", "title": "x", "published": "today"}),
    Mistake("format", "report", ("run", "-"), {"layout": "ways", "format": "csv"},
            prepare=lambda: results_path(out="run")),
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
    Mistake("optimiser", "make_split", ("photos",), {"divergence": 0.1, "backbone": "pixels", "optimiser": "sgd",
                                                     "measure": "wasserstein", "mode": "paper", "hardness": False}),
    Mistake("board", "bench", ((),), {"suite": "suite", "methods": "protonet", "merge": ["other.json"]},
            {"FILE": "board.json"}, prepare=boards),
    Mistake("token", served, (), {"host": "0.0.0.0"}, {"TEXT": "a-long-secret-token"}),
    Mistake("taxonomy", "sample", ("photos",), {**QUICK, "classes": "siblings", "taxonomy": "wordnet"},
            {"FILE": "tree.csv"}, prepare=own_tree),
    Mistake("classes", "train", ("protonet", "photos"), {"taxonomy": "tree.csv", "out": "trained", **TRAINING},
            prepare=own_tree),
    Mistake("layout", "report", ("run", "table.tex"), {"published": "semantic"},
            prepare=lambda: results_path(out="run"), then="needs a testbed with the coarsity"),
    Mistake("sample()", many_tasks, fill={"DATASET": "photos"}, more={"way": 2, "shot": 1, "query": 2},
            use=lambda verb, bed: verb(tasks=len(bed))),
]  # fmt: skip

# Kinds that are not followed here, and why.
NOT_FOLLOWED: dict[str, str] = {
    "on": "starts a cluster: tests/base/scale does",
    "certificate": "opens a server to other machines: tests/arena/server does with a certificate of its own",
    "key": "as the certificate",
    "allow_download": "downloads weights",
    "attributes": "needs a dataset none of whose attributes can be compared; tests/diagnosis gives such files",
    "class_order": "needs a published list of episodes; tests/tasks/test_published.py gives the file",
    "clip": "needs a training that diverges, and then another; tests/training/test_loop.py does that",
    "competition.build_environment()": "installs packages with pip; tests/arena/test_kit_packages.py does",
    "competition.write_baseline()": "trains in a sandbox; tests/arena writes and runs every baseline",
    "audit.leave_out_overlap()": "compares two datasets; tests/audit/test_overlap_command.py",
    "engine": "needs a Python without ONNX Runtime",
    "models.cache_entries()": "needs a full disk",
    "find_overlap()": "needs a comparison of two datasets; tests/audit/test_overlap_files.py makes it anew",
    "greedy": "an example that may or may not reach the target",
    "held_out": "needs a second network that is cheap; tests/tasks/test_judges.py names one",
    "index": "needs a Python without FAISS and 100,000 images",
    "measure_attributes()": "the sentence first asks to remove a file by hand; tests/diagnosis measures them again",
    "method": "a line of YAML, no parameter of a function; tests/studies/vtab_md",
    "network": "the remedy is to leave it out",
    "phase": "needs a final after a phase; tests/arena/test_rules.py submits to the phase before",
    "query": "needs a published list of episodes without queries; tests/tasks/test_published.py",
    "run_study()": "trains networks for minutes; tests/studies run every study",
    "selftest": "runs every method and training twice; tests/api/test_selftest.py",
    "splits": "of a study that trains networks; tests/studies/transfer",
    "train": "packs a submission that trains; tests/arena/test_make_submission.py",
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


def mentioned(template: str) -> Iterator[_Call | _Parameter]:
    """Calls, and parameters that have a value."""
    for piece in _pieces(template):
        if isinstance(piece, _Call) or (isinstance(piece, _Parameter) and piece.value is not None):
            yield piece


def kind(piece: _Call | _Parameter) -> str:
    return f"{piece.name}()" if isinstance(piece, _Call) else piece.name


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


# Those that search, train or measure pixels.
LONG = (
    "find_suspects()",
    "backbone",
    "intervene",
    "train()",
    "optimiser",
    "by",
    "learnt_accuracy",
    "classes",
)


def by_length(mistake: Mistake) -> Any:
    marks = (pytest.mark.long,) if mistake.follows in LONG else ()
    return pytest.param(mistake, id=mistake.follows, marks=marks)


@pytest.mark.parametrize("mistake", map(by_length, MISTAKES))
def test_what_a_sentence_says_helps(desk: Path, mistake: Mistake) -> None:
    if mistake.prepare is not None:
        mistake.prepare()
    with pytest.raises(UserError) as caught:
        mistake.run()
    pieces = [piece for piece in mentioned(caught.value.template) if kind(piece) == mistake.follows]
    assert pieces, f"the sentence does not mention {mistake.follows}: {caught.value}"
    piece = pieces[-1]  # a fact may mention it before
    if isinstance(piece, _Parameter):
        value = literal(str(piece.value), mistake.fill)
        try:
            mistake.run(**{piece.name: value})
        except UserError as error:
            if not mistake.then or mistake.then not in str(error):
                raise
        return
    call = pkgutil.resolve_name(f"longshot:{piece.name}")
    settings = {name: literal(value, mistake.fill) for name, value in piece.settings.items()}
    made = call(*(literal(word, mistake.fill) for word in piece.arguments), **{**settings, **mistake.more})
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
                    for piece in mentioned(text):
                        places.setdefault(kind(piece), []).append(f"{name}:{line}")
    return places


def test_every_kind_of_remedy_is_followed_or_excused() -> None:
    places = kinds()
    followed = {mistake.follows for mistake in MISTAKES}
    assert not followed & set(NOT_FOLLOWED)
    open_kinds = {kind: where for kind, where in places.items() if kind not in followed | set(NOT_FOLLOWED)}
    assert not open_kinds, f"follow these, or say why not: {open_kinds}"
    assert set(NOT_FOLLOWED) <= set(places), "no sentence speaks of these any more"
    print(f"{len(followed & set(places))} of {len(places)} kinds followed, {len(NOT_FOLLOWED)} excused")
