"""Everything of a competition as files: tables as CSV, the settings, archives, results. No secret is in it."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from longshot.arena.database_tables import metadata
from longshot.arena.policy import Person, permit
from longshot.arena.services import desk
from longshot.arena.services.office import Office
from longshot.arena.settings import FILE

_TABLES = (
    *("teams", "submissions", "runs", "events", "scores", "scorings"),
    *("accounts", "members", "announcements", "audit", "uploads"),
)
_SECRET = ("password",)  # columns that stay here
_ROWS = 1000  # read at a time
_RESULTS = (*desk.FILES, "detailed_results.html")


def export(office: Office, person: Person, out: Path) -> Path:
    """Write everything as the zip ``out``: what an organiser needs to keep, to publish, or to move elsewhere."""
    permit(person, "export.read")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        settings = (office.folder / FILE).read_text(encoding="utf-8")
        lines = [line for line in settings.splitlines(True) if not line.startswith("database:")]
        archive.writestr(FILE, "".join(lines))
        for name in _TABLES:
            archive.writestr(f"tables/{name}.csv", _csv(office, metadata.tables[name]))
        for path in sorted((office.folder / "submissions").glob("[0-9]*")):
            for file in _files(path):
                archive.write(file, file.relative_to(office.folder).as_posix())
    return out


def _csv(office: Office, table: sa.Table) -> str:
    columns = [column for column in table.columns if column.name not in _SECRET]
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow([column.name for column in columns])
    with office.store.reading() as connection:
        rows = connection.execution_options(yield_per=_ROWS).execute(sa.select(*columns))
        writer.writerows([_plain(value) for value in row] for row in rows)
    return buffer.getvalue()


def _plain(value: object) -> object:
    """A value that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value


def _files(folder: Path) -> Iterator[Path]:
    """What a submission is and what its runs wrote."""
    for path in (folder / "submission.zip", *sorted(folder.glob("submission/**/*"))):
        if path.is_file():
            yield path
    for run in sorted(folder.glob("seed-*")):
        if run.is_dir() and run.name.removeprefix("seed-").isdecimal():
            yield from (run / name for name in _RESULTS if (run / name).is_file())
