"""Print the lowest versions that pyproject.toml allows, as constraints of pip: ``python tools/lowest.py > FILE``.

Every ``name>=bound`` of the dependencies and of the users' extras becomes ``name==bound``; where a name has several
bounds, the highest counts, as it does for pip. The tools of developers (``dev``, ``docs``) stay free.
``make test-lowest`` installs with it: a bound that no longer works fails there, and is raised with its reason.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = {"dev", "docs"}  # extras of developers
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,-]+\])?(?P<relation>>=|==)(?P<version>\d+(?:\.\d+)*)")


def requirements(project: dict[str, object]) -> list[str]:
    """List what ``project`` (the table of that name in pyproject.toml) asks of its users, extras included."""
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})  # type: ignore[assignment]
    own: list[str] = project["dependencies"]  # type: ignore[assignment]
    return [*own, *(line for extra, lines in extras.items() if extra not in TOOLS for line in lines)]


def lowest(lines: Iterable[str]) -> dict[str, str]:
    """Map each name among the requirements ``lines`` to its lowest version; ValueError names one of another form.

    >>> lowest(["numpy>=1.26", "Ray[client]>=2.60", "numpy>=1.9", "timm==1.0"])
    {'numpy': '1.26', 'ray': '2.60', 'timm': '1.0'}
    """
    bounds: dict[str, str] = {}
    for line in lines:
        match = _REQUIREMENT.fullmatch(line)
        if match is None:
            raise ValueError(f"'{line}' says no lowest version; write it as 'name>=1.2' or 'name==1.2'")
        name = re.sub(r"[-_.]+", "-", match["name"]).lower()
        bounds[name] = max(bounds.get(name, "0"), match["version"], key=_numbers)
    return bounds


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for name, version in lowest(requirements(project)).items():
        print(f"{name}=={version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
