"""Plant small faults and see whether the tests notice: `python tools/mutants.py 60 --seed 0`.

A mutant is one changed operator or constant in a copy of the source. Its room's tests run against the copy until the
first failure; a mutant that survives is printed with its line, and deserves a test (or is the same program: say why).
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# folder of src/longshot → the tests that ought to notice, quickest first
TARGETS = {
    "statistics": ["tests/statistics"],
    "selection": ["tests/selection"],
    "competition/ranking.py": ["tests/competition/test_ranking.py"],
    "evaluation": ["tests/evaluation", "tests/statistics"],
    "reports": ["tests/reports"],
    "studies": ["tests/studies"],
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


def sites(tree: ast.Module) -> list[int]:
    """Positions (in the order of ``ast.walk``) of the nodes in which a small fault can be planted."""
    copied = copy.deepcopy(tree)
    return [position for position, node in enumerate(list(ast.walk(copied))) if _change(node)]


def mutant(tree: ast.Module, position: int) -> tuple[int, str, ast.Module]:
    """(line, what changed, the changed tree) with the fault planted at ``position``."""
    changed = copy.deepcopy(tree)
    node = next(node for number, node in enumerate(ast.walk(changed)) if number == position)
    assert isinstance(node, ast.expr)
    before = ast.unparse(node)
    _change(node)
    return node.lineno, f"{before} → {ast.unparse(node)}", changed


def _change(node: ast.AST) -> bool:
    """Change the node in place where it is of a kind that can be changed."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif (
        isinstance(node, ast.BinOp)
        and type(node.op) in OPERATORS
        and not isinstance(node.left, ast.Constant | ast.JoinedStr)
    ):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value = node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 0.01
    else:
        return False
    return True


def choose(count: int, seed: int, targets: list[str]) -> list[tuple[str, Path, int, str, ast.Module]]:
    """``count`` mutants spread evenly over the targets: (target, file, line, change, tree)."""
    generator = random.Random(seed)
    chosen = []
    for number in range(count):
        target = targets[number % len(targets)]
        path = ROOT / "src/longshot" / target
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        while True:
            file = generator.choices(files, weights=[file.stat().st_size for file in files])[0]
            original = ast.parse(file.read_text(encoding="utf-8"))
            if possible := sites(original):
                break
        line, change, tree = mutant(original, generator.choice(possible))
        chosen.append((target, file, line, change, tree))
    return chosen


def survives(target: str, file: Path, tree: ast.Module, seconds: int) -> bool:
    """Whether the target's tests pass with the mutant in place of the file."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source)
        (source / file.relative_to(ROOT / "src")).write_text(ast.unparse(tree), encoding="utf-8")
        tests = [test for test in TARGETS[target] if (ROOT / test).exists()]
        command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "--timeout", str(seconds), *tests]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=10 * seconds
            )
        except subprocess.TimeoutExpired:
            return False  # it hangs: that would be noticed
        return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only these (repeatable)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=120, help="limit of a single test")
    options = parser.parse_args()
    mutants = choose(options.count, options.seed, options.target or list(TARGETS))
    alive = []
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = pool.map(lambda m: survives(m[0], m[1], m[4], options.seconds), mutants)
        for (target, file, line, change, _), lives in zip(mutants, outcomes, strict=True):
            alive.append(lives)
            verdict = "SURVIVED" if lives else "killed  "
            print(f"{verdict} {target:22} {file.relative_to(ROOT)}:{line}: {change}", flush=True)
    print(f"{len(alive) - sum(alive)} of {len(alive)} mutants killed")
    return int(any(alive))


if __name__ == "__main__":
    sys.exit(main())
