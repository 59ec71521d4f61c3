"""The tool that plants mutants: every place is found, each fault is one change, and its tests exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tools import mutants


def changes(text: str) -> list[str]:
    tree = ast.parse(text)
    file = mutants.SOURCE / "reports/sections/coarsity_quartiles.py"
    return [mutants.plant(file, tree, position).change for position in mutants.sites(tree)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", ["a < b → a <= b"]),
        ("a == b", ["a == b → a != b"]),
        ("a + b", ["a + b → a - b"]),
        ("a * b", ["a * b → a / b"]),
        ("a and b", ["a and b → a or b"]),
        ("-a", ["-a → +a"]),
        ("max(a)", ["max → min"]),
        ("a.any()", ["a.any → a.all"]),
        ("x = 3", ["3 → 4"]),
        ("x = 0.5", ["0.5 → 0.76"]),
        ("x = 'a' + b", []),
        ("x = True", []),
    ],
)
def test_a_fault_is_one_change(text: str, expected: list[str]) -> None:
    assert changes(text) == expected


def test_the_same_seed_plants_the_same_mutants() -> None:
    first, again, other = (
        [mutant.name for mutant in mutants.choose(3, seed, ["statistics", "tasks/selection"])]
        for seed in (1, 1, 2)
    )
    assert first == again != other and len(set(first)) == 3


def test_faults_by_hand_must_stand_once(tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("# a comment\n\nreports/sections/coarsity_quartiles.py | FEWEST = 8 | FEWEST = 9\n")
    [mutant] = mutants.read_list(listed)
    assert "FEWEST = 9" in mutant.text and mutant.change == "FEWEST = 8 → FEWEST = 9"
    listed.write_text("reports/sections/coarsity_quartiles.py | FEWEST = 7 | FEWEST = 9\n")
    with pytest.raises(SystemExit, match="0 times"):
        list(mutants.read_list(listed))


def test_every_fault_by_hand_stands() -> None:
    assert len(list(mutants.read_list(mutants.ROOT / "tools/mutants.txt"))) > 20


def test_every_fault_of_a_line_is_found() -> None:
    name = "reports/sections/coarsity_quartiles.py"
    lines = (mutants.SOURCE / name).read_text(encoding="utf-8").splitlines()
    [number] = [number for number, line in enumerate(lines, 1) if line.startswith("FEWEST = 8")]
    assert [mutant.change for mutant in mutants.at_line(f"{name}:{number}")] == ["8 → 9"]


def test_the_tests_near_a_file_exist() -> None:
    for name in mutants.NEAREST:
        assert (mutants.SOURCE / name).exists(), name
    for target in mutants.TARGETS:
        path = mutants.SOURCE / target
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            if file.name != "__init__.py":
                assert all((mutants.ROOT / test).exists() for test in mutants.nearest(file)), file
