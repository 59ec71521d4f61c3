"""Weights in disguise: whatever an archive of the meta-learning league holds them in, its compressed bytes tell.

``pytest -s tests/arena/test_smuggling.py`` prints what every disguise weighs.
"""

from __future__ import annotations

import base64
import io
import json
import marshal
import pickle
import re
import sqlite3
import textwrap
import wave
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from longshot import competition as api
from longshot.arena.competition_data import CompetitionData
from longshot.arena.entry_audit import alter
from longshot.arena.inside.league import MAX_COMPRESSED, compressed_size, shipped_weights
from longshot.arena.submission_check import unpack
from longshot.arena.submission_runs import run
from longshot.base import UserError

# 100,000 numbers at 8 bits, as a trained network's are spread: a small convolutional network.
NUMBERS = np.clip(np.random.default_rng(7).normal(128, 40, 100_000), 0, 255).astype(np.uint8)
WEIGHTS = NUMBERS.tobytes()
PLAIN = "class MyMetaLearner: pass\nclass MyLearner: pass\n"
BITS = np.unpackbits(NUMBERS[:90_000])


def pixels(suffix: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(NUMBERS[:90_000].reshape(300, 300)).save(out, suffix)
    return out.getvalue()


def lines(text: str, prefix: str = "", width: int = 100) -> str:
    return "".join(f"{prefix}{line}\n" for line in textwrap.wrap(text, width, break_on_hyphens=False))


B85, B64 = base64.b85encode(WEIGHTS).decode(), base64.b64encode(WEIGHTS).decode()
WORDS = "".join(chr(0x4E00 + number) for number in np.frombuffer(WEIGHTS, "<u2") >> 2)
PAIRS = NUMBERS.repeat(4) >> np.tile([0, 2, 4, 6], len(NUMBERS)).astype(np.uint8) & 3
NIBBLES = np.stack([NUMBERS >> 4, NUMBERS & 15], 1).ravel()
Files = dict[str, str | bytes]


def sound() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 1, 8000, 0, "NONE", ""))
        file.writeframes(WEIGHTS)
    return out.getvalue()


def film() -> bytes:
    out = io.BytesIO()
    frames = [Image.fromarray(part) for part in NUMBERS.reshape(10, 100, 100)]
    frames[0].save(out, "gif", save_all=True, append_images=frames[1:])
    return out.getvalue()


def written_picture() -> bytes:
    out, texts = io.BytesIO(), PngImagePlugin.PngInfo()
    texts.add_text("comment", B64)
    Image.new("L", (8, 8)).save(out, "png", pnginfo=texts)
    return out.getvalue()


def database() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE notes (value INTEGER)")
        connection.executemany("INSERT INTO notes VALUES (?)", [(int(number),) for number in NUMBERS])
        connection.commit()
        return connection.serialize()


DISGUISES: dict[str, Callable[[], Files]] = {
    "a text literal": lambda: {"w.py": f"W = {B85!r}\n"},
    "many short literals": lambda: {
        "w.py": "".join(f"W{i} = {B64[i : i + 40]!r}\n" for i in range(0, len(B64), 40))
    },
    "a bytes literal": lambda: {"w.py": f"W = {WEIGHTS!r}\n"},
    "a list of numbers": lambda: {"w.py": f"W = {NUMBERS.tolist()}\n"},
    "a list of floats": lambda: {"w.py": f"W = {[round(float(n) / 255, 4) for n in NUMBERS]}\n"},
    "one large number": lambda: {"w.py": f"W = {hex(int.from_bytes(WEIGHTS, 'big'))}\n"},
    "a docstring": lambda: {"w.py": f'"""\n{lines(B64)}"""\n'},
    "comments": lambda: {"w.py": lines(B64, "# ")},
    "an f-string": lambda: {"w.py": f"W = f'{B64}'\n"},
    "names of variables": lambda: {
        "w.py": "".join(
            f"v_{B64[i : i + 60].replace('+', '_').replace('/', '_')} = 0\n" for i in range(0, len(B64), 60)
        )
    },
    "names of files": lambda: {
        f"data/{base64.urlsafe_b64encode(WEIGHTS[i : i + 120]).decode().strip('=')}": ""
        for i in range(0, 90_000, 120)
    },
    "names of folders": lambda: {
        f"{base64.urlsafe_b64encode(WEIGHTS[i : i + 120]).decode().strip('=')}/x": ""
        for i in range(0, 90_000, 120)
    },
    "Markdown": lambda: {f"{i}.md": lines(B85[i::4]) for i in range(4)},
    "a table": lambda: {
        "w.csv": "\n".join(",".join(map(str, row)) for row in NUMBERS.reshape(-1, 20).tolist())
    },
    "JSON": lambda: {"settings.json": json.dumps({"mean": NUMBERS.tolist()})},
    "a thousand small files": lambda: {f"{i}.txt": B85[i::1000] for i in range(1000)},
    "a picture": lambda: {"logo.png": pixels("png")},
    "a bitmap": lambda: {"logo.bmp": pixels("bmp")},
    "behind the end of a picture": lambda: {"logo.png": pixels("png")[:200] + WEIGHTS},
    "a zip in the zip": lambda: {"notes.docx": zlib.compress(WEIGHTS)},
    "XML": lambda: {"figure.svg": f"<svg><path d='{' '.join(map(str, NUMBERS.tolist()))}'/></svg>"},
    "letters of another script": lambda: {"licence.txt": WORDS},
    "letters that show nothing": lambda: {"w.py": "# " + "".join("\u200b\u200c"[bit] for bit in BITS) + "\n"},
    "white space at line ends": lambda: {"w.py": "".join("\t "[bit] for bit in BITS) + "\n"},
    "upper and lower case": lambda: {"terms.md": "".join("aA"[bit] for bit in BITS)},
    "the order of lines": lambda: {
        "words.txt": "".join(f"word{n:05d}\n" for n in np.random.default_rng(0).permutation(60_000))
    },
    "a module of another name": lambda: {"w.so": WEIGHTS},
    "types of arguments": lambda: {
        "w.py": "".join(f"def f{i}(x: {B64[i : i + 60]!r}): ...\n" for i in range(0, len(B64), 60))
    },
    "sums": lambda: {
        "w.py": "".join(f"W{i} = {' + '.join(map(str, NUMBERS[i : i + 40]))}\n" for i in range(0, 60_000, 40))
    },
    "code without a bottom": lambda: {"w.py": f"W = {' + '.join(map(str, NUMBERS[:3000]))}\n# {B64}\n"},
    "code that is none": lambda: {"w.py": f"W = ({' + '.join(map(str, NUMBERS[:60_000]))}\n"},
    "keys of a dictionary": lambda: {
        "w.py": "W = {" + ", ".join(f"{B64[i : i + 24]!r}: 0" for i in range(0, len(B64), 24)) + "}\n"
    },
    "names of methods": lambda: {
        "w.py": "class W:\n"
        + "".join(
            f"    def m{i}_{B64[i : i + 80].replace('+', '_').replace('/', '_').strip('=')}(self): ...\n"
            for i in range(0, len(B64), 80)
        )
    },
    "depths of lines": lambda: {
        "w.py": "W = [\n" + "".join(f"{' ' * part}0,\n" for part in NIBBLES.tolist()) + "]\n"
    },
    "a number a line": lambda: {"w.py": "W = []\n" + "".join(f"W.append({number})\n" for number in NUMBERS)},
    "arguments of a call": lambda: {
        "w.py": f"W = dict({', '.join(f'a{i}={n}' for i, n in enumerate(NUMBERS))})\n"
    },
    "compiled code": lambda: {"w.pyc": marshal.dumps(compile(f"W = {WEIGHTS!r}", "w", "exec"))},
    "a file without an ending": lambda: {"metadata": pickle.dumps(NUMBERS.tolist())},
    "a sound": lambda: {"hello.wav": sound()},
    "a film": lambda: {"film.gif": film()},
    "a line in a picture": lambda: {"logo.png": written_picture()},
    "a font": lambda: {"text.ttf": b"\0\1\0\0" + WEIGHTS},
    "a database": lambda: {"notes.db": database()},
    "translations": lambda: {"de.mo": b"\xde\x12\x04\x95" + WEIGHTS},
    "words of a story": lambda: {
        "story.md": " ".join(("anna", "bertha", "carl", "dora")[part] for part in PAIRS)
    },
    "signs of a score": lambda: {
        "smileys.txt": "".join(chr(0x1F600 + part) for part in (NUMBERS % 64).tolist())
    },
    "accents": lambda: {"poem.txt": "".join("e" + chr(0x300 + part) for part in (NUMBERS % 64).tolist())},
    "an endless number": lambda: {"w.py": f"W = {'.'.join(['0', ''.join(f'{n:03d}' for n in NUMBERS)])}\n"},
    "addresses": lambda: {
        "links.md": "".join(
            f"https://a.b/?q={quote(WEIGHTS[i : i + 60])}\n" for i in range(0, len(WEIGHTS), 60)
        )
    },
    "a notebook": lambda: {"w.ipynb": json.dumps({"cells": [{"source": B64}]})},
}


def write(folder: Path, files: Files) -> Path:
    for name, content in {"model.py": PLAIN, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.mark.parametrize("name", DISGUISES)
def test_a_disguise_does_not_pass(name, tmp_path):
    folder = write(tmp_path / "code", DISGUISES[name]())
    (finding,) = shipped_weights(folder)
    weighed = re.search(r"has ([\d.,]+) KB compressed", finding)
    print(f"{name}: {finding}")
    assert weighed is not None
    assert float(weighed[1].replace(",", "")) > MAX_COMPRESSED / 1024
    with pytest.raises(UserError, match="allows no saved weights"):
        api.check_submission(folder, league="meta-learning")


def _commented(archive: zipfile.ZipFile) -> None:
    archive.comment = WEIGHTS[:60_000]


def _extra(archive: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo("a.py")
    entry.extra = b"\x99\x99" + (60_000).to_bytes(2, "little") + WEIGHTS[:60_000]
    archive.writestr(entry, "")


def _entry_comment(archive: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo("a.py")
    entry.comment = WEIGHTS[:60_000]
    archive.writestr(entry, "")


def _dates(archive: zipfile.ZipFile) -> None:
    for number in range(1500):
        day = WEIGHTS[number]
        archive.writestr(zipfile.ZipInfo(f"{number}", (1980 + day % 100, 1 + day % 12, 1, 0, 0, 0)), "")


def _order(archive: zipfile.ZipFile) -> None:
    for number in np.random.default_rng(0).permutation(1500):
        archive.writestr(f"{number:04d}", "")


def _rights(archive: zipfile.ZipFile) -> None:
    for number in range(1500):
        entry = zipfile.ZipInfo(f"{number}")
        entry.external_attr = (0o100000 | (WEIGHTS[number] << 1)) << 16
        archive.writestr(entry, "")


@pytest.mark.parametrize("hide", [_commented, _extra, _entry_comment, _dates, _order, _rights])
def test_fields_of_the_zip_reach_no_submission(hide, tmp_path):
    """What is unpacked has a few bytes, the same times and the same rights: nothing of the fields is left."""
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("model.py", PLAIN)
        hide(archive)
    folder = unpack(tmp_path / "code.zip", tmp_path / "code")
    facts = [path.stat() for path in folder.rglob("*")]
    assert {fact.st_mode & 0o777 for fact in facts} == {0o644}
    assert max(fact.st_mtime for fact in facts) - min(fact.st_mtime for fact in facts) < 60
    texts = [path.name.encode() + path.read_bytes() for path in folder.rglob("*")]
    print(f"{hide.__name__}: {compressed_size(texts):,} bytes are left")
    assert compressed_size(texts) < 4000


@pytest.mark.parametrize("baseline", [name for name in api.BASELINES if name != "metadelta"])
def test_honest_entries_are_far_below_the_limit(baseline, tmp_path):
    code = api.write_baseline(baseline, tmp_path / "code")
    assert shipped_weights(code) == []
    files = [path.read_bytes() for path in code.rglob("*") if path.is_file()]
    assert compressed_size(files) < MAX_COMPRESSED / 4


@pytest.mark.parametrize("name", [name for name in DISGUISES if not name.startswith("names of")])
def test_an_audit_makes_noise_of_it(name, tmp_path):
    """Hardly anything of 64 bytes in a row is left; 4 KB of the smallest pieces are. Names are for the limit alone."""
    folder = write(tmp_path / "code", DISGUISES[name]())
    before = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    alter(folder, "noise", np.random.default_rng(0))
    after = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    pieces = {before[start : start + 64] for start in range(2000, len(before) - 64, 4096)}
    survived = sum(piece in after for piece in pieces if len(set(piece)) > 1)
    print(f"{name}: {survived} of {len(pieces)} pieces are as they were")
    assert survived <= 0.2 * len(pieces)
    assert (
        folder / "model.py"
    ).read_text().strip() == "class MyMetaLearner:\n    pass\n\nclass MyLearner:\n    pass"


LISTED = """
names = [name for name in __import__("os").listdir("/box/submission") if name.isdigit()]
times = [__import__("os").stat(f"/box/submission/{name}").st_mtime_ns for name in sorted(names)]
print("LISTED", "-".join(names)[:2000], [a < b for a, b in zip(times, times[1:])].count(True))
return MyLearner()
"""


@pytest.mark.usefixtures("needs_sandbox")
def test_the_order_in_an_archive_reaches_no_box(competition, submission, tmp_path):
    """A folder is listed in the order its files were made on a memory disk: that is not the archive's."""
    code = submission(meta=LISTED.strip())
    phase = competition.phases[0].model_copy(update={"tasks": 1, "logs": "printed"})
    seen = set[str]()
    for seed in (0, 1):
        with zipfile.ZipFile(tmp_path / f"{seed}.zip", "w") as archive:
            archive.write(code / "model.py", "model.py")
            for number in np.random.default_rng(seed).permutation(300):
                archive.writestr(f"{number:04d}", "")
        folder = unpack(tmp_path / f"{seed}.zip", tmp_path / f"code-{seed}")
        run(CompetitionData(competition), phase, folder, tmp_path / f"run-{seed}", seed=1)
        log = (tmp_path / f"run-{seed}" / "log.txt").read_text()
        seen |= {line.rpartition(" ")[0] for line in log.splitlines() if line.startswith("LISTED")}
        assert re.search(r"^LISTED \S+ \d+$", log, re.MULTILINE)
    assert len(seen) == 1
