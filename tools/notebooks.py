"""Run the notebooks of examples/ and keep what they print: ``python tools/notebooks.py examples/*.ipynb``.

Each runs in a folder of its own, from an empty kernel. What goes to standard error (progress, notes) is left out, and
so are times, so that a second run changes nothing but what the code changed. ``--check`` writes nothing and says what
differs.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HASH = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b")  # of a module's code, of a testbed
NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
SECONDS = 1800  # for one cell; generous, for a busy machine


def run(path: Path) -> Any:
    """The notebook with the outputs of this run; ``nbclient.exceptions.CellExecutionError`` where a cell fails."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        # Commands that a cell runs are those of this Python, whatever is installed elsewhere.
        commands = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        client.execute(env={**os.environ, "PATH": commands})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def texts(notebook: Any) -> Iterator[tuple[int, str]]:
    """(number of the cell, what it printed or showed as text) of every code cell."""
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            parts = [
                output["text"]
                if output.output_type == "stream"
                else output.get("data", {}).get("text/plain", "")
                for output in cell.outputs
            ]
            yield number, HASH.sub("HASH", "".join(parts))


def differences(stored: Any, new: Any, *, share: float = 0.1, points: float = 3.0) -> list[str]:
    """What the two print otherwise: other words, or numbers further apart than a share or so many points.

    Processors differ in the last digits, so a query or two of a testbed may be answered otherwise.
    """
    problems = []
    for (number, before), (_, after) in zip(texts(stored), texts(new), strict=True):
        words = [NUMBER.sub("#", " ".join(text.split())) for text in (before, after)]
        if words[0] != words[1]:
            problems.append(f"cell {number} prints other words:\n  before: {words[0]}\n  now:    {words[1]}")
            continue
        pairs = zip(NUMBER.findall(before), NUMBER.findall(after), strict=True)
        for old, now in ((float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs):
            if abs(old - now) > max(points if abs(old) > 1 else points / 100, share * abs(old)):
                problems.append(f"cell {number}: {old:g} before, {now:g} now")
    return problems


def main() -> int:
    import nbformat

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    arguments = parser.parse_args()
    failed = False
    for path in arguments.notebooks:
        new = run(path)
        if arguments.check:
            problems = differences(nbformat.read(path, as_version=4), new)
            failed |= bool(problems)
            print(f"{path}: {'; '.join(problems) or 'as it was'}")
        else:
            nbformat.write(new, path)
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
