"""Check that docstrings open with a verb: ``python tools/docstrings.py`` says the share per room; exit 1 below 80 %.

Functions, methods and properties count; a docstring of a class or a module may open with a noun, since it says what the
thing is. ``--list ROOM`` prints those of a room that do not, as ``file:line name: first line``.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "longshot"
WANTED = 0.80
VERBS = frozenset(
    """accept add adapt adjust advance align allow announce answer append apply approve arrange ask assemble assign attach
    average balance batch begin bind bound break bring build cache calibrate call cancel cap carry cast catch centre change
    check choose claim classify clean clear clip clone close collect combine compare compile compose compress compute
    concatenate confirm connect constrain construct continue convert copy correct count cover create crop cross cut deal
    decide declare decode decorate decrypt deduce define delay delete deliver deny derive describe detach detect determine
    digest disable discard dismiss dispatch display divide do download draw drop dump embed empty enable encode encrypt end
    enforce enter enumerate erase escape estimate evaluate exchange exclude execute exit expand expect expire explain
    export expose express extend extract fail fall fetch fill filter find finish fit fix flag flatten flip fold follow
    forbid force forget fork format forward free freeze gather generate get give go group grow guard guess halve hand
    handle hash hide hold identify ignore import improve include increase index infer ingest initialise insert inspect
    install integrate interpolate intersect invert invite issue iterate join judge jump keep kill label launch lay lead
    learn leave lend let lift limit linearise link list listen load locate lock log look lower make manage map mark mask
    match mean measure merge mirror mix model modify move multiply name narrow negate normalise note notice number observe
    obtain offer omit open optimise order outline overwrite own pack pad paint pair parse partition pass paste pause
    perform permute pick place plan plant plot point pool post predict prepare present press prevent print produce project
    promise prove provide publish pull put quantise query quote raise rank rate read rebuild recall receive recognise
    recompute record redirect reduce refer refine refuse register reject release reload remember remove rename render
    repair repeat replace replay report request require rescore reset reshape resize resolve restore restrict resume retry
    return reverse rewrite rotate round route run sample satisfy save say scale scan schedule score seal search see seed
    select send separate serialise serve set settle shape share shift show shrink shuffle shut sign simulate skip slice
    solve sort space split spread stack stamp standardise start state step stop store stream stretch strip submit
    subtract suggest sum summarise supply suspend swap switch synchronise take tell terminate test throw tie time toggle
    total trace track train transform translate transpose treat trim truncate try tune turn undo unfold unite unlock
    unpack unwrap update upload use validate vary verify view visit vote wait wake walk warn watch weigh weight whiten
    widen withdraw withhold word work wrap write yield zero""".split()
)


def first_lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line, name, first line of the docstring) of each function in a file that has one."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            yield node.lineno, node.name, text.partition("\n")[0]


def opens_with_verb(line: str) -> bool:
    """Tell whether the first word is a verb in its plain form.

    >>> opens_with_verb("Return the mean."), opens_with_verb("The mean."), opens_with_verb("Returns the mean.")
    (True, False, False)
    """
    word = re.match(r"[A-Za-z]+", line)
    return word is not None and word.group().lower() in VERBS


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", metavar="ROOM", help="print what does not open with a verb")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    verbs: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        room = parts[0] if len(parts) > 1 else PACKAGE.name
        for number, name, line in first_lines(path):
            counts[room] += 1
            verbs[room] += opens_with_verb(line)
            if arguments.list == room and not opens_with_verb(line):
                print(f"{path.relative_to(PACKAGE.parents[1])}:{number} {name}: {line}")
    share = verbs.total() / counts.total()
    if arguments.list is None:
        for room in sorted(counts):
            print(f"{room}: {verbs[room]:,} of {counts[room]:,} docstrings open with a verb")
        print(f"all: {share:.1%}; at least {WANTED:.0%} are needed")
    return int(arguments.list is None and share < WANTED)


if __name__ == "__main__":
    sys.exit(main())
