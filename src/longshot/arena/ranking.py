"""Who is where: the leaderboard of a phase and league and its page, who enters the final, when results are final."""

from __future__ import annotations

import datetime as dt
import json
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import sqlalchemy as sa

from longshot.arena import entry_rules, queue
from longshot.arena.database_tables import events, now, runs, stamp, submissions, teams
from longshot.arena.domains import domain_sentence, phase_domains
from longshot.arena.inside.blind_tasks import telling, telling_half
from longshot.arena.queue import run_folder
from longshot.arena.result_pages import (
    LEGEND,
    MAIN,
    SHOWN,
    Difficulty,
    Facts,
    PagePart,
    PhaseDifficulty,
    TaskRecord,
    curves_figure,
    difficulty_figure,
    means_figure,
    phase_difficulty,
    read_records,
    render,
)
from longshot.arena.settings import Competition, Phase, parse_time
from longshot.arena.store import Store, note, read_secret
from longshot.arena.submission_check import PRIVATE, FactSheet, dump_sheet, stored_sheet
from longshot.base import UserError
from longshot.statistics import compare_paired, half_text, plus_minus

RankBy: TypeAlias = Literal["last", "best", "selected"]


class BoardEntry(NamedTuple):
    """One line of a leaderboard. ``rank`` is None for entries that are shown but not ranked."""

    rank: int | None
    team: str
    score: float
    submission: int
    created: str  # when it was made: of a final entry, the feedback submission it comes from
    sheet: tuple[tuple[str, str], ...] = ()  # fields of the fact sheet that everybody may read
    half: float | None = None  # half of the 95 % interval of the run that counts
    team_id: int = 0
    entries: int = 1  # valid submissions of the team
    pending: bool = False  # it is being scored anew: this is the score before
    # score of the entry above less its own over the same tasks, and half of the 95 % interval of that
    behind: float | None = None
    behind_half: float | None = None
    late: bool = False  # it was handed in after the phase had ended


def leaderboard(
    competition: Competition, store: Store, phase: str, league: str, by: RankBy | None = None
) -> list[BoardEntry]:
    """Rank one valid submission of every team, best score first, ties to the earlier one.

    ``by`` says which: the last, the best, or the one that the team selected (the last where it selected none); as the
    competition has it unless given. A query over scores, never a flag that could be out of date: what has no finite
    score or lies in the trash has no line. A final entry is as early as the feedback submission it was made from.
    """
    competition.phase(phase)
    original = submissions.alias("original")
    scored_anew = sa.and_(submissions.c.state.in_(("queued", "running")), submissions.c.version > 1)
    query = (
        sa.select(
            submissions,
            teams.c.name,
            teams.c.pseudonym,
            teams.c.ranked,
            sa.func.coalesce(original.c.created, submissions.c.created).label("made"),
            sa.func.coalesce(original.c.id, submissions.c.id).label("first"),
            half_of_worst().label("half"),
        )
        .join(teams, teams.c.id == submissions.c.team)
        .outerjoin(original, original.c.id == submissions.c.origin)
        .where(
            submissions.c.phase == phase,
            submissions.c.league == league,
            sa.or_(submissions.c.state == "scored", scored_anew),
            submissions.c.score.is_not(None),
            submissions.c.deleted.is_(None),
            teams.c.deleted.is_(None),
        )
        .order_by(submissions.c.id)
    )
    valid = [row for row in store.rows(query) if math.isfinite(row["score"])]
    ordered = sorted(
        counting(valid, by or competition.ranks_by),
        key=lambda row: (-row["score"], row["made"], row["first"]),
    )
    made = Counter(row["team"] for row in valid)
    entries, rank = [], 0
    end = competition.phase(phase).end
    closing = None if end is None else stamp(parse_time(end, phase))
    for row in ordered:
        late = closing is not None and row["made"] >= closing
        in_rank = bool(row["ranked"]) and not late
        rank += in_rank
        shown = (row["pseudonym"] or row["name"]) if competition.pseudonyms else row["name"]
        hidden = PRIVATE if shown != row["name"] else ()
        sheet = stored_sheet(row["fact_sheet"]).items()
        entry = BoardEntry(rank if in_rank else None, shown, row["score"], row["id"], row["made"])
        entries.append(
            entry._replace(
                sheet=tuple((name, text) for name, text in sheet if name.lower() not in hidden),
                half=row["half"],
                team_id=row["team"],
                entries=made[row["team"]],
                pending=row["state"] != "scored",
                late=late,
            )
        )
    return entries


def half_of_worst() -> sa.ScalarSelect[Any]:
    """Select half of the interval of a submission's run that counts, the worst."""
    worst = runs.alias("worst")
    own = sa.select(worst.c.half).where(worst.c.submission == submissions.c.id)
    return own.order_by(worst.c.score, worst.c.id).limit(1).scalar_subquery()


def counting(rows: Iterable[Mapping[str, Any]], by: RankBy) -> list[Mapping[str, Any]]:
    """Choose the row of every team that counts, of all its valid submissions in the order they were made."""
    chosen: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        before = chosen.get(row["team"])
        if before is None or _replaces(row, before, by):
            chosen[row["team"]] = row
    return list(chosen.values())


def _replaces(row: Mapping[str, Any], before: Mapping[str, Any], by: RankBy) -> bool:
    """Tell whether a later submission counts in place of an earlier one."""
    if by == "best":
        return bool(row["score"] > before["score"])
    if by == "selected":
        return bool(row["selected"]) or not before["selected"]
    return True


def qualified(competition: Competition, store: Store, phase: str) -> list[dict[str, Any]]:
    """List each team's last valid submission to ``phase`` by league, with ``enters`` and, if not, ``why``."""
    entries = []
    for league in competition.leagues:
        for entry in leaderboard(competition, store, phase, league):
            row = store.submission(entry.submission)
            why = entry_rules.kept_out(competition, league, entry.score, row["fact_sheet"])
            entries.append({**row, "enters": not why, "why": why})
    return entries


def hand_in_sheet(store: Store, number: int, sheet: FactSheet) -> None:
    """Give a submission its fact sheet, or another one in place of the former."""
    store.submission(number)
    with store.change() as connection:
        connection.execute(
            submissions.update().where(submissions.c.id == number).values(fact_sheet=dump_sheet(sheet))
        )
        note(connection, number, "its fact sheet was handed in")


class FinalEntry(NamedTuple):
    """What became of a team's last valid submission to the phase before the final."""

    team: str
    league: str
    feedback: int  # number of that submission
    score: float
    final: int | None  # number of the submission to the final, where it entered
    why_not: str


def enter_final(competition: Competition, store: Store) -> list[FinalEntry]:
    """Enter every qualified submission of the phase before into the final, once; says what was done with each."""
    before = competition.qualifying
    if before is None:
        raise UserError(
            "The competition has 0 phases with submissions before its last, and a final needs one",
            "add it to competition.yaml",
        )
    entries = []
    for row in qualified(competition, store, before.name):
        number = _final_submission(competition, store, row) if row["enters"] else None
        entry = FinalEntry(row["team_name"], row["league"], row["id"], row["score"], number, row["why"])
        entries.append(entry)
    return entries


def _final_submission(competition: Competition, store: Store, row: dict[str, Any]) -> int:
    """Make the final submission of ``row``, or return the one that was made before."""
    final = competition.final
    with queue.alone(store) as connection:
        same = (submissions.c.team == row["team"], submissions.c.league == row["league"])
        earlier = connection.execute(
            sa.select(submissions.c.id).where(*same, submissions.c.phase == final.name)
        ).first()
        if earlier is not None:
            return int(earlier[0])
        goal = entry_rules.target(competition, final, read_secret(competition))
        # The name holds what it is run on: asked again, the same job; with other tasks, another one.
        job = f"carry/{final.name}/{row['league']}/team-{row['team']}/{goal[:16]}"
        entry = queue.Entry(final, row["league"], row["fact_sheet"], job=job)
        source = queue.archive_path(competition, row["id"])
        number = queue.insert(
            competition, connection, row["team"], entry, row["id"], source / "submission.zip"
        )
        target = queue.archive_path(competition, number)
        shutil.rmtree(target, ignore_errors=True)  # left by an entry that was not committed
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("seed-*"))
        note(connection, row["id"], f"entered the final as submission {number}")
        return number


def final_on(competition: Competition, store: Store) -> dt.datetime | None:
    """Return when the review period after the final's last run ends; None while runs are still to come."""
    phase = competition.final
    entries = store.rows(sa.select(submissions).where(submissions.c.phase == phase.name))
    if not entries or any(row["state"] in ("queued", "running") for row in entries):
        return None
    numbers = [row["id"] for row in entries]
    runs = (events.c.submission.in_(numbers), events.c.what.like("seed %"))  # not a fact sheet that came late
    ended = store.rows(sa.select(sa.func.max(events.c.time).label("time")).where(*runs))
    if ended[0]["time"] is None:  # all were cancelled before any began
        return None
    return parse_time(ended[0]["time"], phase.name) + dt.timedelta(days=phase.review_days)


def standing(competition: Competition, store: Store, phase: str) -> str:
    """Say whether the results of a phase are final, in a few words for people."""
    since = final_on(competition, store) if phase == competition.final.name else None
    return standing_since(competition, phase, since)


def standing_since(competition: Competition, phase: str, moment: dt.datetime | None) -> str:
    """Say the same as ``standing``, given what ``final_on`` returned."""
    if phase != competition.final.name:
        return f"provisional: only the phase '{competition.final.name}' ranks for good"
    if moment is None:
        return "provisional: runs are still to come"
    if moment > dt.datetime.now(dt.UTC):
        days = competition.final.review_days
        return f"provisional until {moment:%Y-%m-%d %H:%M} UTC: {days} days of review"
    return f"final since {moment:%Y-%m-%d %H:%M} UTC"


COLUMNS = (
    *("rank", "team", "method", "normalised accuracy", "95 % interval", "behind the one above", "submission"),
    "submitted (UTC)",
)
METHOD = COLUMNS.index("method")


def with_differences(competition: Competition, phase: str, entries: list[BoardEntry]) -> list[BoardEntry]:
    """Give every entry its paired difference to the entry above, where the two answered the same tasks."""
    compared, above = list[BoardEntry](), None
    for entry in entries:
        records = read_records(_run_folders(competition, phase, entry))
        if above and records and [each.draw for each in above] == [each.draw for each in records]:
            loss = compare_paired(_by_task(records), _by_task(above)).difference
            entry = entry._replace(behind=loss.mean, behind_half=telling(loss.half))
        compared.append(entry)
        above = records
    return compared


def _by_task(records: Iterable[TaskRecord]) -> list[float]:
    return [score for record in records for score in record.normalized_accuracy]


def leaderboard_page(competition: Competition, store: Store, phase: str) -> str:
    """Write the leaderboards of all leagues of a phase, then who is how good on what."""
    parts = []
    for league in competition.leagues:
        entries = with_differences(competition, phase, leaderboard(competition, store, phase, league))
        rows = [
            [
                "not ranked" if entry.rank is None else str(entry.rank),
                entry.team,
                dict(entry.sheet).get("title", ""),
                f"{entry.score:.4f}",
                _half(worst_run(competition, phase, entry.submission)),
                plus_minus(entry.behind, entry.behind_half, "plain", 4),
                str(entry.submission),
                entry.created,
            ]
            for entry in entries
        ]
        columns = list(COLUMNS)
        if not any(row[METHOD] for row in rows):  # nobody says: the scores are nearer on a small screen
            for cells in (columns, *rows):
                del cells[METHOD]
        if entries:
            note = "The last valid submission of every team; of several seeds the worst counts; ties go to the earlier."
            parts.append(PagePart(f"League {league}", note, columns, rows, texts=len(columns) - 5))
    parts += figure_parts(competition, store, phase)
    state = standing(competition, store, phase)
    facts = [f"phase {phase}", state, *competition.marks, f"written {now()} UTC"]
    return render(competition.title, " · ".join(facts), parts)


def figure_parts(
    competition: Competition, store: Store, phase: str, *, sheets: bool = True
) -> list[PagePart]:
    """Draw figures 1 to 3 of the Cross-Domain MetaDL paper for the entries of a phase; then their fact ``sheets``."""
    everyone, records = dict[str, Mapping[str, Any]](), dict[str, list[TaskRecord] | None]()
    facts: list[Facts] = []
    for league in competition.leagues:
        for entry in leaderboard(competition, store, phase, league):
            name = entry.team if len(competition.leagues) == 1 else f"{entry.team} · {league}"
            if (scores := worst_run(competition, phase, entry.submission)) is not None:
                everyone[name] = scores
            records[name] = read_records(_run_folders(competition, phase, entry))
            facts += [(name, entry.sheet)] if entry.sheet and sheets else []
    parts = [] if competition.domains is None else [_domains(competition, competition.phase(phase))]
    if everyone:
        parts += _figures(dict(list(everyone.items())[:SHOWN]), len(everyone))
    if difficulty := phase_difficulty(records):
        parts.append(_difficulty(difficulty))
    if facts:
        parts.append(PagePart("Fact sheets", "What the teams say of their methods.", facts=facts))
    return parts


def _domains(competition: Competition, phase: Phase) -> PagePart:
    """List what was trained on and what is tested, domain by domain."""
    groups = phase_domains(competition, phase)
    rows = [
        [name, ", ".join(groups.train.get(name, ())) or "–", ", ".join(groups.test.get(name, ())) or "–"]
        for name in sorted({*groups.train, *groups.test})
    ]
    return PagePart(
        "Domains", domain_sentence(competition, phase), ["domain", "training", "test"], rows, texts=3
    )


def _figures(teams: Mapping[str, Mapping[str, Any]], entries: int) -> list[PagePart]:
    """Draw figures 1 and 2 of the Cross-Domain MetaDL paper for ``teams``, which may be the first of more."""
    overall = {team: scores["overall"] for team, scores in teams.items()}
    lines = [
        curves_figure(
            {team: scores[f"by_{key}"] for team, scores in teams.items()}, f"number of {counted}", key
        )
        for key, counted in (("ways", "classes"), ("shots", "shots"))
    ]
    return [
        PagePart(
            "Methods",
            "Mean normalised accuracy of the worst run with its 95 % interval over tasks; 0 is guessing."
            + (
                f" Here and in the next figure: the first {len(teams)} of {entries} entries."
                if entries > len(teams)
                else ""
            ),
            plots=[means_figure(overall, "methods")],
        ),
        PagePart(
            "Ways and shots",
            "Mean normalised accuracy by number of classes and of images per class. Lines that do not cross mean that "
            "the order of the teams does not depend on them.",
            plots=lines,
            legend=list(enumerate(teams)),
        ),
    ]


def _difficulty(difficulty: PhaseDifficulty) -> PagePart:
    """Draw figure 3 with its numbers, over all entries of the phase."""
    count = len(difficulty.entries)
    bars, rows = [], []
    for each in difficulty.datasets:
        best, worst = 1 - each.intrinsic.mean, 1 - each.intrinsic.mean - each.modelling.mean
        bars.append(Difficulty(each.dataset, worst, best, telling(each.intrinsic.half)))
        ends = [difficulty.entries[each.best], difficulty.entries[each.worst]]
        numbers = [
            plus_minus(part.mean, telling(part.half), "plain", 3) for part in (each.intrinsic, each.modelling)
        ]
        if count == 1:
            numbers[1] = "–"
        rows.append([each.dataset, *ends, f"{best:.3f}", f"{worst:.3f}", *numbers])
    note = (
        f"Over all {count} {'entry' if count == 1 else 'entries'} of the phase and all their runs. Intrinsic: what "
        "the best entry leaves (1 − best), for 1 can be reached. Modelling: how much the choice of method matters "
        "(best − worst). ± is half of the 95 % interval over tasks"
        + ("" if difficulty.paired else ", every entry having tasks of its own")
        + ", given which entry was best and which worst; so few tasks that it would say nothing have none."
    )
    if count == 1:
        note += " One entry says nothing about the choice of method."
    if difficulty.left_out:
        note += f" {difficulty.left_out} more without scores task by task: run them again to have them here."
    columns = ["dataset", "best entry", "worst entry", "best", "worst"]
    columns += ["intrinsic difficulty", "modelling difficulty"]
    return PagePart(
        "Difficulty of the datasets",
        note,
        columns,
        rows,
        texts=3,
        plots=[difficulty_figure(bars, "difficulty")],
        legend=list(LEGEND),
        squares=True,
    )


def _half(scores: Mapping[str, Any] | None) -> str:
    half = None if scores is None else telling_half(scores["overall"], MAIN)
    return "–" if half is None else half_text(half, "plain", 4)


def worst_run(competition: Competition, phase: str, submission: int) -> dict[str, Any] | None:
    """Read scores.json of the run that counts."""
    folders = [run_folder(competition, submission, seed) for seed in competition.phase(phase).seeds]
    paths = [folder / "scores.json" for folder in folders]
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    return min(runs, key=lambda scores: float(scores["overall"][MAIN]), default=None)


def _run_folders(competition: Competition, phase: str, entry: BoardEntry) -> list[Path]:
    """List where the runs of an entry lie, one per seed."""
    return [run_folder(competition, entry.submission, seed) for seed in competition.phase(phase).seeds]
