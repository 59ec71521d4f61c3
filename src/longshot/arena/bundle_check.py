"""The ``competition.yaml`` of a Codabench bundle: checked as its unpacker will, a sentence per mistake; written."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from longshot.arena.settings import Competition, Phase, parse_time, template
from longshot.base import UserError

_PROGRAMS = ("ingestion_program", "scoring_program")
_DATA = ("input_data", "reference_data")


def check_bundle(path: str | Path) -> list[str]:
    """Check any Codabench bundle against the rules of its unpacker.

    Parameters
    ----------
    path : str or Path
        A zip with competition.yaml at its top.

    Returns
    -------
    list of str
        Everything that is wrong, one sentence each; empty when the bundle can be uploaded.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(
            f"There is no bundle at {path}", "write one with {competition.export_bundle(FOLDER, out=FILE)}"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            return _Checker(archive).check()
    except zipfile.BadZipFile as error:
        raise UserError(
            f"{path} is no zip that can be read; a bundle is a zip with competition.yaml in it."
        ) from error


class _Checker:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.names = set(archive.namelist())
        self.mistakes: list[str] = []

    def say(self, text: str) -> None:
        self.mistakes.append(text)

    def check(self) -> list[str]:
        if "competition.yaml" not in self.names:
            inner = sorted(name for name in self.names if name.endswith("/competition.yaml"))
            hint = f"; it is at {inner[0]}: zip the folder's contents, not the folder" if inner else ""
            self.say(f"There is no competition.yaml at the top of the zip{hint}.")
            return self.mistakes
        try:
            described = yaml.safe_load(self.archive.read("competition.yaml"))
        except yaml.YAMLError as error:
            self.say(f"competition.yaml is not YAML that can be read: {' '.join(str(error).split())[:200]}.")
            return self.mistakes
        if not isinstance(described, dict):
            self.say("competition.yaml must hold settings by name.")
            return self.mistakes
        if str(described.get("version")) != "2":
            self.say(f"'version' is {described.get('version')!r} and must be 2.")
        self._text(described, "title", 256)
        self._image(described)
        self._words(described.get("terms"), "terms")
        self._pages(described.get("pages"))
        tasks = self._tasks(described.get("tasks"))
        self._phases(described.get("phases"), tasks)
        self._leaderboards(described.get("leaderboards"))
        return self.mistakes

    def _text(self, entry: dict[str, Any], key: str, longest: int, where: str = "competition.yaml") -> None:
        value = entry.get(key)
        if not isinstance(value, str) or not value:
            self.say(f"{where} has no '{key}'.")
        elif len(value) > longest:
            self.say(f"{where}: '{key}' has {len(value)} letters, at most {longest} are allowed.")

    def _file(self, name: Any, where: str) -> bool:
        if not isinstance(name, str) or not name:
            self.say(f"'{where}' names no file.")
        elif name not in self.names:
            self.say(f"'{where}' names the file {name}, which is not in the zip.")
        else:
            return True
        return False

    def _words(self, name: Any, where: str) -> None:
        """Check a page: a file that is there, is text and is not empty."""
        if not self._file(name, where):
            return
        try:
            if not self.archive.read(name).decode("utf-8"):
                self.say(f"'{where}' names the file {name}, which is empty.")
        except UnicodeDecodeError:
            self.say(f"'{where}' names the file {name}, which is not UTF-8 text.")

    def _image(self, described: dict[str, Any]) -> None:
        from PIL import Image, UnidentifiedImageError

        if self._file(described.get("image"), "image"):
            try:
                with Image.open(io.BytesIO(self.archive.read(described["image"]))) as image:
                    image.load()
            except (UnidentifiedImageError, OSError):
                self.say(f"The image {described['image']} cannot be decoded; use a PNG or JPEG.")

    def _entries(self, value: Any, where: str) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not value:
            self.say(f"'{where}' must be a list with at least 1 entry.")
            return []
        wrong = [entry for entry in value if not isinstance(entry, dict)]
        if wrong:
            self.say(f"'{where}' holds {type(wrong[0]).__name__} where settings by name are needed.")
        return [entry for entry in value if isinstance(entry, dict)]

    def _pages(self, value: Any) -> None:
        for position, page in enumerate(self._entries(value, "pages")):
            self._text(page, "title", 256, f"page {position}")
            self._words(page.get("file"), f"file of page {position}")

    def _tasks(self, value: Any) -> set[int]:
        indices: set[int] = set()
        for position, task in enumerate(self._entries(value, "tasks")):
            where = f"task {position}"
            self._text(task, "name", 256, where)
            self._number(task, where, "task", indices)
            if "scoring_program" not in task:
                self.say(f"{where} has no 'scoring_program'.")
            for key in (*_PROGRAMS, *_DATA):
                if key in task and self._file(task[key], f"{key} of {where}"):
                    self._inner(task[key], key, where)
        return indices

    def _number(self, entry: dict[str, Any], where: str, kind: str, indices: set[int]) -> None:
        """Check that an entry has an index of its own, and add it to those there are."""
        index = entry.get("index")
        if not isinstance(index, int):
            self.say(f"{where} has no 'index'.")
        elif index in indices:
            self.say(f"{where} has the index {index} of another {kind}.")
        else:
            indices.add(index)

    def _inner(self, name: str, key: str, where: str) -> None:
        if not name.endswith(".zip"):
            self.say(f"'{key}' of {where} is {name}; ship it as a zip, sub-folders are not unpacked.")
            return
        try:
            with zipfile.ZipFile(io.BytesIO(self.archive.read(name))) as inner:
                if key not in _PROGRAMS:
                    return
                if "metadata.yaml" not in inner.namelist() and "metadata" not in inner.namelist():
                    self.say(f"'{key}' of {where} ({name}) has no metadata.yaml at its top.")
                    return
                metadata = "metadata.yaml" if "metadata.yaml" in inner.namelist() else "metadata"
                facts = yaml.safe_load(inner.read(metadata))
                if not isinstance(facts, dict) or not isinstance(facts.get("command"), str):
                    self.say(f"metadata.yaml in {name} has no 'command'.")
                elif any(sign in facts["command"] for sign in ("|", ";", "&&", ">", "$")):
                    self.say(f"The command in {name} uses a shell's signs, but no shell runs it.")
        except (zipfile.BadZipFile, yaml.YAMLError):
            self.say(f"'{key}' of {where} ({name}) cannot be read.")

    def _phases(self, value: Any, tasks: set[int]) -> None:
        # the unpacker goes by 'index' where there is one, and numbers the phases anew
        phases = sorted(self._entries(value, "phases"), key=_index)
        for position, phase in enumerate(phases):
            where = f"phase {phase.get('name', position)!r}"
            self._text(phase, "name", 256, where)
            for key in ("start", "end"):
                self._moment(phase.get(key), key, where, needed=key == "start" or position + 1 < len(phases))
            used = phase.get("tasks")
            if not isinstance(used, list) or not used:
                self.say(f"{where} has no 'tasks'.")
            else:
                for index in used:
                    if index not in tasks:
                        self.say(f"{where} uses the task {index}, and there is none of that index.")
            if position == 0 and phase.get("auto_migrate_to_this_phase"):
                self.say(f"{where} is the first and cannot have 'auto_migrate_to_this_phase'.")
            self._limits(phase, where)
        self._sequence(phases)

    def _moment(self, moment: Any, key: str, where: str, *, needed: bool) -> None:
        if moment is None:
            if needed:
                self.say(f"{where} has no '{key}'; only the last phase may go on for ever.")
        elif isinstance(moment, dt.date):
            self.say(f"{where}: '{key}' is not quoted, so its time of day is lost; write it in quotes.")
        elif _moment(moment) is None:
            self.say(f"{where}: '{key}' is {moment!r}, which is no date such as \"2027-06-15 12:00:00\".")

    def _limits(self, phase: dict[str, Any], where: str) -> None:
        limits = {"max_submissions_per_day": "5 a day", "max_submissions": "100 in all"}
        for key, default in limits.items():
            if key in phase and not _is_count(phase[key]):
                self.say(
                    f"{where}: '{key}' is {phase[key]!r} and must be a whole number of 1 or more (without it there "
                    f"are {default})."
                )
        if "execution_time_limit" in phase and not _is_count(phase["execution_time_limit"]):
            self.say(f"{where}: 'execution_time_limit' is {phase['execution_time_limit']!r}, not seconds.")
        for key in ("hide_output", "auto_migrate_to_this_phase"):
            if not isinstance(phase.get(key, False), bool):
                self.say(f"{where}: '{key}' is {phase[key]!r} and must be true or false.")

    def _sequence(self, phases: list[dict[str, Any]]) -> None:
        """Check that every phase starts later than the end of the one before it; equal times are refused."""
        for phase in phases:
            start, end = _moment(phase.get("start")), _moment(phase.get("end"))
            if start is not None and end is not None and end <= start:
                self.say(f"phase {phase.get('name')!r} ends at {phase['end']}, before or at its start.")
        for before, after in itertools.pairwise(phases):
            end, start = _moment(before.get("end")), _moment(after.get("start"))
            if end is not None and start is not None and start <= end:
                self.say(
                    f"phase {after.get('name')!r} starts at {after['start']}, but phase {before.get('name')!r} ends at "
                    f"{before['end']}; a start must be later than the end before it, by a second at least."
                )

    def _leaderboards(self, value: Any) -> None:
        boards = self._entries(value, "leaderboards")
        if len(boards) > 1:
            self.say(f"There are {len(boards)} leaderboards, but only the first counts; keep one.")
        for board in boards[:1]:
            self._text(board, "title", 64, "the leaderboard")
            self._text(board, "key", 36, "the leaderboard")
            columns = self._entries(board.get("columns"), "columns of the leaderboard")
            indices = {column["index"] for column in columns if isinstance(column.get("index"), int)}
            earlier = set[int]()
            for position, column in enumerate(columns):
                where = f"column {position}"
                self._text(column, "title", 36, where)
                self._text(column, "key", 36, where)
                self._number(column, where, "column", earlier)
                if "precision" in column and not _is_count(column["precision"]) and column["precision"] != 0:
                    self.say(
                        f"{where}: 'precision' is {column['precision']!r} and must be a number of decimals."
                    )
                if column.get("sorting", "desc") not in ("asc", "desc"):
                    self.say(f"{where}: 'sorting' is {column['sorting']!r} and must be asc or desc.")
                if column.get("computation", "min") not in ("avg", "sum", "min", "max"):
                    self.say(
                        f"{where}: there is no computation {column['computation']!r}; use avg, sum, min or max."
                    )
                over = column.get("computation_indexes") or []
                if column.get("computation") and not over:
                    self.say(
                        f"{where} computes '{column['computation']}' over no column: add 'computation_indexes'."
                    )
                for index in over:
                    if not str(index).isdigit() or int(index) not in indices:
                        self.say(
                            f"{where} computes over the column {index}, and there is none of that index."
                        )
            if "primary_index" in board and board["primary_index"] not in indices:
                self.say(
                    f"'primary_index' is {board['primary_index']}, and there is no column of that index."
                )


def _moment(value: Any) -> dt.datetime | None:
    """Parse a date-time as UTC; None where it is none."""
    try:
        moment = dt.datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _index(phase: dict[str, Any]) -> int:
    index = phase.get("index", 0)
    return index if isinstance(index, int) else 0


UNLIMITED = 1_000_000  # submissions; where the limit is missing the platform sets 5 a day and 100 in all
DAYS = 60  # of a phase whose end is not said
STEP = dt.timedelta(seconds=1)  # between two phases: the platform refuses an end that is the next one's start


def bundle_settings(
    competition: Competition,
    taking: Sequence[Phase],
    tasks: Sequence[dict[str, Any]],
    used: Sequence[Sequence[int]],
    docker_image: str,
) -> str:
    """Write the text of a bundle's competition.yaml; ``used`` are the indices of every phase's tasks."""
    required = competition.fact_sheet == "required"
    leagues = _question("league", "select", "League", list(competition.leagues), required=True)
    questions = {
        name: _question(name, "text", name, "", required=required) for name in competition.fact_fields
    }
    phases = []
    for position, (phase, (start, end)) in enumerate(zip(taking, dates(taking), strict=True)):
        entry: dict[str, Any] = {
            "index": position,
            "name": phase.name,
            "description": f"Phase {phase.name}",
            "start": _written(start),
            "tasks": list(used[position]),
            "max_submissions_per_day": phase.per_day or UNLIMITED,
            "max_submissions": allowed_in_all(competition, phase) or UNLIMITED,
            "execution_time_limit": round(phase.limits.seconds),
            "hide_output": phase is taking[-1],  # what ranks for good shows nothing but scores
        }
        if end is not None:
            entry["end"] = _written(end)
        if position:
            entry["auto_migrate_to_this_phase"] = True
        phases.append(entry)
    described = yaml.safe_load(template("bundle.yaml"))
    described |= {
        "title": competition.title[:256],
        "docker_image": docker_image,
        "fact_sheet": {"league": {**leagues, "is_on_leaderboard": True}, **questions},
        "tasks": list(tasks),
        "phases": phases,
    }
    return yaml.safe_dump(described, sort_keys=False, allow_unicode=True)  # quotes texts that look like dates


def allowed_in_all(competition: Competition, phase: Phase) -> int:
    """Count the submissions that a team may make to a phase, 0 for no limit.

    The final takes one entry where a phase before it lets teams in, as in Longshot's own competitions. The platform
    counts what it moves there by itself, and leaves out what failed.
    """
    final = phase is competition.final and competition.qualifying is not None
    return 1 if final else phase.total


def dates(
    phases: Sequence[Phase], now: dt.datetime | None = None
) -> list[tuple[dt.datetime, dt.datetime | None]]:
    """Start and end (UTC) of every phase, each start later than the end before it; the last may have no end.

    What competition.yaml leaves open is filled in: a phase begins a second after the one before, the first one now, and
    lasts until the next or for 60 days. UserError where what it says overlaps.
    """
    moments: list[tuple[dt.datetime, dt.datetime | None]] = []
    earliest = (now or dt.datetime.now(dt.UTC)).replace(microsecond=0)
    for position, phase in enumerate(phases):
        where = f"Phase '{phase.name}'"
        start = parse_time(phase.start, where) if phase.start else earliest
        following = phases[position + 1] if position + 1 < len(phases) else None
        later = parse_time(following.start, where) if following and following.start else None
        end = parse_time(phase.end, where) if phase.end else None
        if end is None and following is not None:
            end = later or start + dt.timedelta(days=DAYS)
        if end is not None and end == later:
            end -= STEP
        if end is not None and end <= start:
            raise UserError(
                f"{where} would end at {_written(end)} and start at {_written(start)}", "change its times"
            )
        if later is not None and end is not None and later <= end:
            raise UserError(
                f"{where} ends at {_written(end)}, after the start of '{following.name if following else ''}' at "
                f"{_written(later)}",
                "let the phases of competition.yaml follow each other: the platform refuses those that overlap",
            )
        moments.append((start, end))
        earliest = (end or start) + STEP
    return moments


def _written(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def _question(key: str, kind: str, title: str, selection: Any, *, required: bool) -> dict[str, Any]:
    """Return a field of the fact sheet as a question of the platform."""
    shown = {"title": title, "selection": selection, "is_required": required, "is_on_leaderboard": False}
    return {"key": key, "type": kind, **shown}
