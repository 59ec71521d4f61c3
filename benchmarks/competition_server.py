"""A competition server under load: 200 participants on loopback, while two workers score in the sandbox.

Everybody has a team and a token of their own: each hands one archive in, looks at its state, its log, the board, the
queue and the quota, pauses a few seconds between two looks as a page does, and does so until the time is over. The
server, the workers and the participants are processes of their own on this machine, so that all share its cores.
Wanted: no answer of 500 or above; 95 of 100 reads within 300 ms; everything handed in is queued or scored once.

    python -m benchmarks competition_server       200 participants for 90 seconds, 2 workers
    python -m benchmarks.competition_server reads        what one read costs the server, by address; no worker runs
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PARTICIPANTS, SECONDS, WORKERS = 200, 90.0, 2
PAUSE = (2.0, 8.0)  # seconds between two looks of one participant
WANTED = 0.3  # seconds, the 95th percentile of reads
PROCESSES = 4  # of participants, each with its share of them as threads
READS = ("/competition", "/submissions", "/board", "/queue", "/quota", "/announcements", "log")


class LoadReport(NamedTuple):
    """How a server fared under load."""

    reads: int
    percentiles: tuple[float, float, float]  # 50, 95 and 99 % of reads, seconds
    statuses: Counter[int]
    handed_in: int
    states: Counter[str]  # of submissions at the end
    twice: int  # submissions with more than one score
    problems: list[str]


def run_load(
    folder: Path, *, participants: int = PARTICIPANTS, seconds: float = SECONDS, workers: int = WORKERS
) -> LoadReport:
    """Serve the competition in ``folder`` and let everybody loose on it."""
    from longshot.arena import load
    from longshot.arena.database_tables import scores, submissions
    from longshot.arena.store import Store

    tokens, worker_tokens = _people(folder, participants, workers)
    context = multiprocessing.get_context("spawn")
    address = context.Queue()
    stop = context.Event()
    server = context.Process(target=_serve, args=(folder, address, stop))
    server.start()
    url = address.get(timeout=300)
    working = [context.Process(target=_work, args=(url, token)) for token in worker_tokens]
    for process in working:
        process.start()
    answers = context.Queue()
    shares = [tokens[part::PROCESSES] for part in range(PROCESSES)]
    crowd = [
        context.Process(target=_crowd, args=(url, share, number, seconds, answers))
        for number, share in enumerate(shares)
    ]
    for process in crowd:
        process.start()
    results = [answers.get(timeout=seconds * 20 + 600) for _ in crowd]
    for process in crowd:
        process.join()
    for process in working:
        process.terminate()
        process.join()
    stop.set()
    server.join(60)
    store = Store(load(folder))
    states = Counter(str(row["state"]) for row in store.rows(submissions.select()))
    times = Counter(row["submission"] for row in store.rows(scores.select()))
    store.engine.dispose()
    reads = sorted(taken for result in results for taken in result["reads"])
    return LoadReport(
        len(reads),
        tuple(float(np.percentile(reads, share)) for share in (50, 95, 99)),  # type: ignore[arg-type]
        sum((Counter(result["statuses"]) for result in results), Counter()),
        sum(result["handed_in"] for result in results),
        states,
        sum(count > 1 for count in times.values()),
        [problem for result in results for problem in result["problems"]],
    )


def cost_of_reads(folder: Path, *, participants: int = PARTICIPANTS, reads: int = 200) -> dict[str, float]:
    """Address → milliseconds of the server's processor for one read of it; ``page`` is what a visitor opens.

    Every team has a scored submission. Participants take turns, so nobody asks the same twice in a row, and the
    database changes between every twenty reads, as it does while two workers score.
    """
    from longshot.arena.server.server_context import ServerContext

    tokens, _ = _people(folder, participants, 0)
    context = ServerContext(folder)
    _score_everybody(context)
    spawning = multiprocessing.get_context("spawn")
    address, stop = spawning.Queue(), spawning.Event()
    server = spawning.Process(target=_serve, args=(folder, address, stop), daemon=True)
    server.start()
    try:
        host = address.get(timeout=300).split("/")[2]
        paths = (*READS, "page /", "page /board")
        return {path: _cost(context, server.pid, host, path, tokens, reads) for path in paths}
    finally:
        stop.set()
        server.join(60)
        context.close()


def _cost(context: Any, process: int | None, host: str, path: str, tokens: list[str], reads: int) -> float:
    import http.client

    from longshot.arena import queue

    begun = 0.0
    with contextlib.closing(http.client.HTTPConnection(host, timeout=120)) as connection:
        for number in range(-20, reads):  # the first are not counted: templates are compiled, caches are cold
            if number == 0:
                begun = _processor_seconds(process)
            if number % 20 == 0:
                with context.store.change() as change:
                    queue.sign(change, "w1", "running")
            index = number % len(tokens)
            where, headers = f"/api/v1{path}", {"Authorization": f"Bearer {tokens[index]}"}
            if path == "log":
                where = f"/api/v1/submissions/{index + 1}/log"
            elif path.startswith("page "):
                where, headers = path.removeprefix("page "), {}
            connection.request("GET", where, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {text[:200]!r}")
    return 1000 * (_processor_seconds(process) - begun) / reads


def _score_everybody(context: Any) -> None:
    """A scored submission of every team, as workers would have left it."""
    from longshot.arena import queue
    from longshot.arena.database_tables import now, runs, submissions, teams
    from longshot.arena.store import note

    phase = context.competition.phases[0]
    numbers = [row["id"] for row in context.store.rows(teams.select())]
    with queue.alone(context.store) as connection:
        for rank, team in enumerate(numbers):
            number = queue.insert(context.competition, connection, team, queue.Entry(phase, "free-style"))
            score = {"state": "scored", "score": rank / len(numbers)}
            own = submissions.update().where(submissions.c.id == number)
            connection.execute(own.values(**score, charged=now()))
            run = runs.update().where(runs.c.submission == number)
            connection.execute(run.values(**score, half=0.01, attempt=1, duration=1.0))
            note(connection, number, f"seed {phase.seeds[0]}: scored {score['score']:.4f} in 1.0 s")


def _processor_seconds(process: int | None) -> float:
    """Seconds that a process and its threads have computed, the kernel's for them included."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _people(folder: Path, participants: int, workers: int) -> tuple[list[str], list[str]]:
    """Everybody with a team and a token; their passwords are weak, for they are not tried here."""
    from longshot.arena.server import credentials, people
    from longshot.arena.server.server_context import ServerContext

    credentials.COST, credentials.PARALLEL = 1 << 4, 1
    context = ServerContext(folder)
    tokens = []
    for number in range(participants):
        name, code = f"person {number}", people.invite(context, people.HOST).code
        people.register(context, name=name, password="a long password", code=code)
        person = credentials.by_session(
            context, people.log_in(context, name=name, password="a long password")
        )
        people.found_team(context, person, name=f"team {number}")
        wish = {"name": "load", "scopes": ["submit", "read-own"]}
        tokens.append(credentials.create_token(context, person, **wish).token)  # type: ignore[arg-type]
    makers = [
        credentials.create_worker_token(context, people.HOST, name=f"w{n}").token for n in range(workers)
    ]
    context.close()
    return tokens, makers


def _serve(folder: Path, address: Any, stop: Any) -> None:
    import longshot
    from longshot.arena.server.rate_limits import Rate, Rates

    # All come from one address here; what one account may ask is as it is.
    server = longshot.serve_competition(folder, port=18900, rates=Rates(address=Rate(1e9, 1e9)))
    address.put(server.url)
    stop.wait()
    server.close()


def _work(url: str, token: str) -> None:
    from longshot import competition

    os.environ["LONGSHOT_CACHE"] = tempfile.mkdtemp(prefix="longshot-worker-")
    with contextlib.suppress(KeyboardInterrupt):
        competition.connect(url, token).work(forever=True)


def _crowd(url: str, tokens: list[str], number: int, seconds: float, answers: Any) -> None:
    """One process of participants, a thread each."""
    gathered: dict[str, Any] = {"reads": [], "statuses": Counter(), "handed_in": 0, "problems": []}
    end = time.monotonic() + seconds
    threads = [
        threading.Thread(
            target=_participant, args=(url, token, random.Random(f"{number} {i}"), end, gathered)
        )
        for i, token in enumerate(tokens)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(gathered)


def _participant(url: str, token: str, rng: random.Random, end: float, gathered: dict[str, Any]) -> None:
    import requests

    session = requests.Session()
    session.headers["authorization"] = f"Bearer {token}"
    base = f"{url}api/v1"
    time.sleep(rng.uniform(0, PAUSE[1]))  # they do not come all at once
    submission = None

    def ask(method: str, path: str, **options: Any) -> Any:
        answer = session.request(method, base + path, timeout=120, **options)
        gathered["statuses"][answer.status_code] += 1
        if answer.status_code >= 400:
            gathered["problems"].append(
                f"{method} {path.split('/')[1]} {answer.status_code}: {answer.text[:120]}"
            )
        return answer

    try:
        data = _archive(token)
        wish = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        upload = ask("POST", "/uploads", json=wish).json()
        ask("PUT", f"/uploads/{upload['id']}", params={"offset": 0}, data=data)
        submission = ask("POST", f"/uploads/{upload['id']}/finish").json()["submission"]
        gathered["handed_in"] += 1
        while time.monotonic() < end:
            path = rng.choice(READS)
            begun = time.monotonic()
            ask("GET", f"/submissions/{submission}/log" if path == "log" else path)
            gathered["reads"].append(time.monotonic() - begun)
            time.sleep(rng.uniform(*PAUSE))
    except Exception as error:
        gathered["problems"].append(f"{type(error).__name__}: {error}"[:200])


def _archive(note: str) -> bytes:
    import io
    import zipfile

    from longshot.arena import write_baseline

    with tempfile.TemporaryDirectory() as name:
        folder = write_baseline("random", Path(name) / "random")
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as packed:
            for path in sorted(folder.rglob("*")):
                packed.write(path, path.relative_to(folder).as_posix())
            packed.writestr("note.txt", note)
    return buffer.getvalue()


@contextlib.contextmanager
def small_competition() -> Iterator[Path]:
    """Three datasets of 4 classes × 8 images, without quotas."""
    with tempfile.TemporaryDirectory(prefix="longshot-load-") as name:
        folder = Path(name) / "competition"
        folder.mkdir(mode=0o755)
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(4), 8)
        for dataset in ("one", "two"):
            pixels = rng.integers(0, 256, (32, 16, 16, 3), dtype=np.uint8)
            np.savez(Path(name) / f"{dataset}.npz", images=pixels, labels=labels)
        phase = "{train: [one], test: [two], tasks: 5, per_day: 5, total: 0, limits: {seconds: 600}}"
        (folder / "competition.yaml").write_text(
            f"title: load\ndatasets: {{one: {name}/one.npz, two: {name}/two.npz}}\nimage_size: 16\n"
            f"shape: {{max_way: 3, max_shot: 3, query: 4}}\nphases:\n  feedback: {phase}\n"
        )
        yield folder


def describe(report: LoadReport, participants: int, seconds: float) -> list[str]:
    """What was seen, line by line."""
    half, most, nearly = (1000 * value for value in report.percentiles)
    failed = sum(count for status, count in report.statuses.items() if status >= 500)
    return [
        f"{participants} participants for {seconds:.0f} s: {report.handed_in} archives handed in, {report.reads:,} "
        f"reads ({report.reads / seconds:.0f} a second); load average {os.getloadavg()[0]:.1f}",
        f"reads: {half:.0f} ms in the middle, 95 % within {most:.0f} ms, 99 % within {nearly:.0f} ms",
        f"answers by status: {dict(sorted(report.statuses.items()))}; {failed} of 500 or above",
        f"submissions: {dict(report.states)}; {report.twice} scored twice",
    ]


def main(parts: Sequence[str] = ()) -> None:
    if "reads" in parts:
        with small_competition() as folder:
            costs = cost_of_reads(folder)
        for path, cost in costs.items():
            print(f"{path:20s}{cost:6.2f} ms of the server's processor")
        shown = [cost for path, cost in costs.items() if not path.startswith("page ")]
        print(f"{'a participant':20s}{sum(shown) / len(shown):6.2f} ms in the mean")
        return
    with small_competition() as folder:
        report = run_load(folder)
    print("\n".join(describe(report, PARTICIPANTS, SECONDS)))
    for problem in report.problems[:5]:
        print(f"  {problem}")
    failed = sum(count for status, count in report.statuses.items() if status >= 500)
    fine = not failed and not report.problems and report.twice == 0 and report.percentiles[1] < WANTED
    print(
        "as wanted"
        if fine
        else f"MISSED: no answer of 500 or above and 95 % of reads within {1000 * WANTED:.0f} ms"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
