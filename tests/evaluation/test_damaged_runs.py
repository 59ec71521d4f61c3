"""Damaged run folders: whoever reads one gets the same numbers as before or one sentence, never a traceback."""

from __future__ import annotations

import copy
import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import longshot
from longshot.base import UserError
from longshot.evaluation import Results, read_run
from longshot.evaluation.predictions import write_predictions
from longshot.evaluation.run_record import CHECKSUM, write_run
from wings import wing_cases

Damage = Callable[[Path], None]
METHODS = ("protonet", "ridge")
METRICS = ("mean", "low", "high", "n", "std", "balanced_accuracy", "normalized_accuracy", "top5", "loss")
LEAK = {"dataset": "photos", "upstream": "birds", "how": "compared", "images": 3, "of_images": 90}
LEAK |= {"classes": 2, "of_classes": 8}


@pytest.fixture(scope="module")
def base(
    dataset: longshot.Dataset, features: longshot.Features, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run of two methods on 30 tasks, with all that a record can hold."""
    folder = tmp_path_factory.mktemp("damaged")
    testbed = longshot.sample(dataset, tasks=30, way=5, shot=1, query=4, seed=3)
    testbed.save(folder / "bed.parquet")
    run = folder / "run"
    longshot.evaluate(
        folder / "bed.parquet", backbones=[features], methods=METHODS, out=run, device="cpu", workers=1
    )
    record = read_run(run)
    record["upstream"] = {"pixels": {testbed.content_hash: [LEAK]}}
    record["choices"] = {"bed | photos": {"measured": {"tuned(lr=1)": [[0.5, 1.25], None]}, "chosen": None}}
    write_run(run, record)
    return run


Numbers = tuple[list[tuple[float, ...]], list[tuple[float, ...]]]


def numbers(run: Path) -> Numbers:
    """What a report and a comparison say, without names and times."""
    page = longshot.report(run, run.parent / "table.json")
    compared = longshot.compare(run)
    return (
        [tuple(line[metric] for metric in METRICS) for line in json.loads(page.read_text())],
        [(pair.result.n, pair.result.difference.mean, pair.result.p, pair.p_holm) for pair in compared.pairs],
    )


def outcome(base: Path, folder: Path, damage: Damage) -> Numbers | UserError:
    """The numbers of a damaged copy, or the sentence in their place."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder)
    damage(folder)
    try:
        return numbers(folder)
    except UserError as error:
        return error


# --- kinds of damage ---


def _text(change: Callable[[bytes], bytes], name: str = "run.json") -> Damage:
    def damage(folder: Path) -> None:
        (path,) = folder.glob(name)
        path.write_bytes(change(path.read_bytes()))

    return damage


def _cut(data: bytes, at: int) -> bytes:
    return data[:at]


def _replaced(_: bytes, text: bytes) -> bytes:
    return text


def _flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a record are, from the outside to the inside."""
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in members:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


def _changed(record: Any, path: tuple[Any, ...], change: str) -> Any:
    """A copy of ``record`` with the value at ``path`` removed or replaced."""
    record = copy.deepcopy(record)
    inside = record
    for key in path[:-1]:
        inside = inside[key]
    if change == "removed":
        del inside[path[-1]]
        return record
    values = {
        "emptied": type(inside[path[-1]])() if isinstance(inside[path[-1]], dict | list | str) else 0,
        "null": None,
        "text": "no such thing",
        "list": [[]],
        "mapping": {"a": {"b": 1}},
        "not a number": math.nan,
        "infinite": math.inf,
        "huge": 10**30,
        "negative": -1,
        "half a surrogate": "\ud800",
        "twice": [inside[path[-1]]] * 2,
    }
    inside[path[-1]] = values[change]
    return record


CHANGES = (
    "removed",
    "emptied",
    "null",
    "text",
    "list",
    "mapping",
    "not a number",
    "infinite",
    "huge",
    "negative",
)
CHANGES += ("half a surrogate", "twice")


class TestRecord:
    def test_bytes(self, base: Path, tmp_path: Path) -> None:
        """Truncated, flipped and replaced: what still reads as JSON differs from its checksum."""
        rng, data = random.Random(14), (base / "run.json").read_bytes()
        texts = (b"", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000)
        changes: list[Callable[[bytes], bytes]] = [
            *(partial(_cut, at=rng.randrange(len(data))) for _ in range(12)),
            *(partial(_flipped, bit=rng.randrange(8 * len(data))) for _ in range(40)),
            *(partial(_replaced, text=text) for text in texts),
            lambda data: data.replace(b'"seed": 0', b'"seed": NaN'),
            lambda data: data.replace(b'"seed": 0', b'"seed": ' + b"9" * 5000),
            lambda data: data + data,
        ]
        reference = numbers(base)
        refused = 0
        for change in changes:
            got = outcome(base, tmp_path / "run", _text(change))
            if isinstance(got, UserError):
                assert "run.json" in str(got) and len(str(got).splitlines()) == 1
                refused += 1
            else:
                assert got == reference
        assert (
            refused >= 55
        )  # what is left are flips between kinds of white space and in names of the checksum

    def test_a_changed_value_is_noticed(self, base: Path, tmp_path: Path) -> None:
        """Whatever is changed in the record that was written, it is told in one sentence."""
        rng = random.Random(15)
        record = json.loads((base / "run.json").read_text())
        paths = [path for path in _paths(record) if path != (CHECKSUM,)]
        for path in rng.sample(paths, 60):
            changed = _changed(record, path, rng.choice(CHANGES))
            if changed != record:
                got = outcome(
                    base, tmp_path / "run", _text(partial(_replaced, text=json.dumps(changed).encode()))
                )
                assert isinstance(got, UserError), (path, changed)
                assert "run.json" in str(got)

    @pytest.mark.long
    def test_a_record_without_a_checksum(self, base: Path, tmp_path: Path) -> None:
        """As earlier versions wrote it: results may be left out with their entry, but none becomes another."""
        rng = random.Random(16)
        record = read_run(base)
        lines, pairs = numbers(base)
        paths = list(_paths(record))
        names = [path for path in paths if path[0] in ("cells", "testbeds", "methods", "format")]
        refused = 0
        for path in rng.sample(paths, 30) + rng.sample(names, 50):
            change = rng.choice(CHANGES)
            changed = _changed(record, path, change)
            got = outcome(
                base, tmp_path / "run", _text(partial(_replaced, text=json.dumps(changed).encode()))
            )
            if isinstance(got, UserError):
                refused += 1
            else:
                assert {*got[0]} <= {*lines} and {*got[1]} <= {*pairs}, (path, change)
        assert refused >= 30

    def test_a_page_of_odd_facts(self, base: Path, tmp_path: Path) -> None:
        """What a page only shows may be anything."""
        shutil.copytree(base, tmp_path / "run")
        record = read_run(base)
        record["sessions"] = [{"machine": {"processor": [], "cores": None, "device": {}}}, {}]
        record["backbones"] = {"pixels": {}, "other": {"f": {"dim": math.nan}}}
        for facts in (*record["testbeds"].values(), *record["methods"].values()):
            facts |= {"sampler": None, "settings": 10**30, "version": "\N{SNOWMAN}"}
        write_run(tmp_path / "run", record)
        page = longshot.report(tmp_path / "run", tmp_path / "page.html", pictures=0).read_text()
        assert "3 of 90" in page  # what training saw, from the record

    @pytest.mark.parametrize("change", [lambda path: path.unlink(), lambda path: path.chmod(0)])
    def test_gone_or_closed(self, base: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
        shutil.copytree(base, tmp_path / "run")
        change(tmp_path / "run" / "run.json")
        try:
            (tmp_path / "run" / "run.json").read_bytes()
        except OSError:
            with pytest.raises(UserError, match=r"run\.json"):
                Results(tmp_path / "run")

    def test_a_folder_in_its_place(self, base: Path, tmp_path: Path) -> None:
        (tmp_path / "run" / "run.json").mkdir(parents=True)
        with pytest.raises(UserError, match=r"run\.json cannot be read: Is a directory"):
            Results(tmp_path / "run")


def _swap(folder: Path) -> None:
    first, second = sorted(folder.glob("part-*.parquet"))
    held = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(held)


def _lower(folder: Path) -> None:
    """Rows with a wrong accuracy in a file whose pages are in order."""
    part = min(folder.glob("part-*.parquet"))
    table = pq.read_table(part)
    at = table.column_names.index("accuracy")
    pq.write_table(table.set_column(at, "accuracy", [[0.0] * table.num_rows]), part)


class TestFiles:
    @pytest.mark.parametrize(
        "pattern",
        [
            "part-*.parquet",
            *(
                pytest.param(f"{folder}/*.parquet", marks=pytest.mark.long)
                for folder in ("seconds", "testbeds")
            ),
        ],
    )
    def test_bits_and_ends(self, base: Path, tmp_path: Path, pattern: str) -> None:
        """Every change is harmless or told; a change of results is always told."""
        rng = random.Random(17)
        name = str(min(base.glob(pattern)).relative_to(base))
        data = (base / name).read_bytes()
        bits = [rng.randrange(8 * len(data)) for _ in range(25)]
        bits += [8 * len(data) - rng.randrange(1, 8 * 3000) for _ in range(25)]  # headers and footer
        changes: list[Callable[[bytes], bytes]] = [partial(_flipped, bit=bit) for bit in bits]
        changes += [partial(_cut, at=rng.randrange(len(data))) for _ in range(6)]
        changes += [lambda data: b"", lambda data: b"PAR1" * 40, lambda data: data + b"\0"]
        reference = numbers(base)
        for change in changes:
            got = outcome(base, tmp_path / "run", _text(change, name))
            if isinstance(got, UserError):
                assert not pattern.startswith("seconds") and Path(name).name in str(got)
            else:
                assert got == reference

    @pytest.mark.parametrize(
        ("damage", "reason"),
        [(_swap, "is not what run.json says: its method is"), (_lower, "not those that were")],
    )
    def test_exchanged_and_changed_rows(
        self, base: Path, tmp_path: Path, damage: Damage, reason: str
    ) -> None:
        got = outcome(base, tmp_path / "run", damage)
        assert isinstance(got, UserError) and reason in str(got)

    def test_a_missing_part_is_work_left_to_do(self, base: Path, tmp_path: Path) -> None:
        shutil.copytree(base, tmp_path / "run")
        min((tmp_path / "run").glob("part-*.parquet")).unlink()
        assert len(Results(tmp_path / "run").missing()) == 1
        with pytest.raises(UserError, match="needs at least 2 series on a testbed and found 1"):
            longshot.compare(tmp_path / "run")

    def test_damaged_times_are_left_out_with_a_note(
        self, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shutil.copytree(base, tmp_path / "run")
        for path in (tmp_path / "run" / "seconds").iterdir():
            path.write_bytes(b"broken")
        assert [line["seconds"] for line in Results(tmp_path / "run").summary()] == [None, None]
        assert "these times are left out, the results stand without them" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("damage", "fact"),
        [
            (lambda path: path.write_bytes(path.read_bytes()[:900]), "testbed is damaged"),
            (Path.unlink, "testbed is missing"),
        ],
    )
    def test_a_copy_of_the_testbed_that_is_cut_or_gone(
        self, run_cli: Any, base: Path, tmp_path: Path, damage: Damage, fact: str
    ) -> None:
        """Without it there is no interval over classes: a report refuses, a comparison of tasks says so."""
        shutil.copytree(base, tmp_path / "run")
        (copied,) = (tmp_path / "run" / "testbeds").iterdir()
        damage(copied)
        done = [
            run_cli("report", tmp_path / "run", "-o", tmp_path / "page.html", check=False),
            run_cli("report", tmp_path / "run", "-o", tmp_path / "table.json", check=False),
            run_cli("compare", tmp_path / "run", check=False),
        ]
        assert [each.returncode for each in done] == [2, 2, 0]
        for each, word in zip(done, ("error", "error", "note"), strict=True):
            (line,) = each.stderr.splitlines()
            assert line.startswith(f"{word}: ") and fact in line and copied.name in line
            assert "'longshot evaluate' again as before" in line
        with pytest.raises(UserError, match=fact):
            Results(tmp_path / "run").summary()
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    def test_another_testbed_in_the_place_of_a_copy(self, base: Path, beds: Path, tmp_path: Path) -> None:
        shutil.copytree(base, tmp_path / "run")
        (copied,) = (tmp_path / "run" / "testbeds").iterdir()
        shutil.copy(beds / "fixed.parquet", copied)
        with pytest.raises(UserError, match="holds another testbed"):
            Results(tmp_path / "run").testbed(copied.stem)

    def test_a_damaged_copy_is_replaced_by_the_next_evaluation(
        self, base: Path, features: longshot.Features, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shutil.copytree(base, tmp_path / "run")
        (copied,) = (tmp_path / "run" / "testbeds").iterdir()
        intact = copied.read_bytes()
        copied.write_bytes(intact[:900])
        longshot.evaluate(
            base.parent / "bed.parquet",
            backbones=[features],
            methods="protonet",
            out=tmp_path / "run",
            workers=1,
        )
        assert copied.read_bytes() == intact
        assert "was damaged and is replaced" in capsys.readouterr().err


def test_the_same_network_under_two_names_counts_once_each(
    base: Path, dataset: longshot.Dataset, features: longshot.Features, tmp_path: Path
) -> None:
    """Units are named after what decides the result, so a second name finds the rows of the first."""
    record = read_run(base)
    record["cells"] += [{**cell, "backbone": "again"} for cell in record["cells"]]
    shutil.copytree(base, tmp_path / "run")
    write_run(tmp_path / "run", record)
    lines = Results(tmp_path / "run").summary()
    assert [(line["backbone"], line["tasks"]) for line in lines] == [("pixels", 30)] * 2 + [("again", 30)] * 2


class TestEveryReader:
    """The real commands, each on a folder whose record was cut in the middle."""

    @pytest.fixture
    def cut(self, base: Path, tmp_path: Path) -> Path:
        shutil.copytree(base, tmp_path / "cut")
        path = tmp_path / "cut" / "run.json"
        path.write_bytes(path.read_bytes()[:1000])
        return tmp_path / "cut"

    @pytest.mark.parametrize(
        "command",
        [
            "report CUT -o OUT/page.html",
            "compare CUT",
            "compare RUN CUT --fail-if-worse 1",
            "evaluate BED --backbone pixels --method protonet -o CUT",
            "score OUT/predictions.parquet BED --against CUT",
            *chain(*wing_cases("RUN_READERS")),
        ],
    )
    def test_one_sentence_with_the_file(
        self, run_cli: Any, base: Path, cut: Path, tmp_path: Path, command: str
    ) -> None:
        bed = base.parent / "bed.parquet"
        if command.startswith("score"):
            testbed = longshot.Testbed.load(bed)
            write_predictions(
                tmp_path / "predictions.parquet", testbed, [task.query_label for task in testbed]
            )
        words = {"CUT": str(cut), "RUN": str(base), "BED": str(bed)}
        arguments = [words.get(word, word.replace("OUT", str(tmp_path))) for word in command.split()]
        done = run_cli(*arguments, check=False)
        assert done.returncode == 2
        assert f"error: {cut / 'run.json'} is damaged: it is not JSON" in done.stderr
        assert "take an unchanged copy of the folder" in done.stderr
        assert "Traceback" not in done.stderr
