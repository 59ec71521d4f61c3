"""What tests that walk over every verb and command have to know of this wing (see ``tests/wings.py``)."""

from __future__ import annotations

from pathlib import Path

from remedies import Mistake

OUTPUT_FILES = {
    ("compete leaderboard", "page"): ("new.html",),  # its page: tests/arena/test_compete_command.py
    ("compete bundle", "out"): ("new.zip",),  # a bundle: tests/arena/test_bundle.py
    ("compete kit", "out"): ("new.zip",),  # a kit: tests/arena/server/test_kit.py
}
OUTPUT_ARGUMENTS = {
    "compete leaderboard": "{missing}",
    "compete bundle": "{missing}",
    "compete kit": "{missing}",
}
OUTPUT_FOLDERS = {
    "compete run": None,
    "compete audit": None,
    "compete run-bundle": None,
}  # tests/arena runs them
OUTPUT_ENDINGS = [("compete bundle", "out", "x.tar", ".zip"), ("compete kit", "out", "x.tar", ".zip")]
NOT_FOLLOWED = {
    "certificate": "opens a server to other machines: tests/arena/server does with a certificate of its own",
    "key": "as the certificate",
    "competition.build_environment()": "installs packages with pip; tests/arena/test_kit_packages.py does",
    "competition.write_baseline()": "trains in a sandbox; tests/arena writes and runs every baseline",
    "phase": "needs a final phase and its open predecessor; tests/arena/test_rules.py",
    "train": "packs a submission that trains; tests/arena/test_make_submission.py",
}


def _small_cup() -> None:
    """Write a competition whose bundle is small: the eight classes of the photos, in three parts."""
    Path("cup").mkdir()
    here = Path("photos").resolve()
    Path("cup/competition.yaml").write_text(
        f"title: small\ndatasets: {{one: {here}, two: {here}/round, three: {here}/square}}\nimage_size: 16\n"
        "shape: {min_way: 2, max_way: 3, min_shot: 1, max_shot: 2, query: 2}\n"
        "phases:\n  feedback: {train: [one], test: [two], tasks: 2}\n  final: {train: [one], test: [three], tasks: 2}\n"
    )


MISTAKES = [
    Mistake("competition.create()", "competition.load", ("cup",)),
    Mistake("competition.export_bundle()", "competition.check_bundle", ("cup.zip",), {},
            {"FOLDER": "cup", "FILE": "cup.zip"}, prepare=_small_cup),
]  # fmt: skip
