"""Changelog fragments: ``python tools/changelog.py`` shows the section of the next version, ``--check`` looks at them.

A fragment is a file ``changelog.d/NAME.md``: a line ``### Theme``, then bullets. A branch adds its own file, so that
branches do not meet in CHANGELOG.md. ``tools/release.py bump VERSION`` folds them in: bullets go to the end of their
theme, a new theme to the end of the section.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER, FILE = ROOT / "changelog.d", ROOT / "CHANGELOG.md"
SECTION = re.compile(r"^## (?P<version>\d+\.\d+\.\d+) \((?P<date>[^)]*)\)(?P<title>.*)$", re.MULTILINE)


def fragments(folder: Path) -> dict[str, tuple[str, str]]:
    """File name → (theme, bullets); ValueError names the first file of another form."""
    parsed = {}
    for path in sorted(folder.glob("*.md")):
        head, _, body = path.read_text("utf-8").strip().partition("\n")
        if not re.fullmatch(r"### \S.*", head) or not re.match(r"- \S", body.strip()):
            raise ValueError(f"{path.name} must begin with '### Theme', followed by bullets ('- …')")
        if re.search(r"^#", body, re.MULTILINE):
            raise ValueError(f"{path.name} has a second heading; one theme a file")
        parsed[path.name] = (head.removeprefix("### "), body.strip("\n"))
    return parsed


def section(text: str, version: str) -> tuple[int, int]:
    """Where the section of a version begins and ends; ValueError where there is none."""
    heads = list(SECTION.finditer(text))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        if head["version"] == version:
            return head.start(), following.start() if following else len(text)
    raise ValueError(f"the changelog has no section '## {version} (…)'")


def folded(text: str, version: str, new: dict[str, tuple[str, str]]) -> str:
    """The changelog with the fragments in the section of a version, which is begun where it is missing.

    >>> text = "# Changelog\\n\\n## 0.1.0 (2026-01-01)\\n\\n### Speed\\n- Fast.\\n"
    >>> print(folded(text, "0.1.0", {"a.md": ("Speed", "- Faster.")}).partition("### ")[2])
    Speed
    - Fast.
    - Faster.
    <BLANKLINE>
    """
    if not any(head["version"] == version for head in SECTION.finditer(text)):
        first = SECTION.search(text)
        at = first.start() if first else len(text)
        text = f"{text[:at]}## {version} (unreleased)\n\n{text[at:]}"
    start, end = section(text, version)
    head, *themes = re.split(r"^(?=### )", text[start:end], flags=re.MULTILINE)
    parts = [theme.rstrip("\n") for theme in themes]
    for theme, body in new.values():
        places = [number for number, part in enumerate(parts) if part.partition("\n")[0] == f"### {theme}"]
        if places:
            parts[places[0]] += f"\n{body}"
        else:
            parts.append(f"### {theme}\n{body}")
    tail = "\n\n" if text[end:] else "\n"
    return text[:start] + head.rstrip("\n") + "\n\n" + "\n\n".join(parts) + tail + text[end:]


def dated(text: str, version: str, date: str) -> str:
    """The changelog with a day in place of '(unreleased)' at a version."""
    start, end = section(text, version)
    return text[:start] + text[start:end].replace("(unreleased)", f"({date})", 1) + text[end:]


def latest(text: str) -> str:
    """The version of the first section."""
    head = SECTION.search(text)
    if head is None:
        raise ValueError("the changelog has no section '## VERSION (…)'")
    return head["version"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only look at the form of the fragments")
    arguments = parser.parse_args()
    text = FILE.read_text("utf-8")
    try:
        new = fragments(FOLDER)
        version = latest(text)
    except ValueError as error:
        print(f"changelog: {error}", file=sys.stderr)
        return 1
    if arguments.check:
        print(f"changelog: {len(new)} fragments for {version}")
    else:
        start, end = section(folded(text, version, new), version)
        print(folded(text, version, new)[start:end])
    return 0


if __name__ == "__main__":
    sys.exit(main())
