"""Blind competitions: what sandbox and pipe cost, and a hundred submissions at once.

Overhead: the Prototypical Networks baseline (cnn4 of width 16, 128 × 128 images of toybox, one thread) through sandbox
and pipe against the same code called directly in a fresh process: the same training tasks, the same test tasks, the
same answers. In turns, so that a busy machine slows both; processor seconds of all processes on either side, which
other programs hardly add to, and by the clock. Starting Python and torch is counted on both sides ("whole") and, to be
strict, left out of the direct side alone ("work only"). Wanted: less than 1.15.

Isolation: the same baseline with a process for every task against one process for the whole run (``isolation: task``
and ``run``), in turns, the same answers. Also what a task would cost in a box of its own, with Python and torch started
anew: the time from nothing to a process that is ready. Wanted: at most 1.5 for forked processes.

Load: 100 submissions of the random baseline, queued by 8 processes at once and run by 2 workers on 16 × 16 images.
Wanted: every one scored exactly once; the rate says what a run costs beside the submission's own work.

    python -m benchmarks competition              all, about 15 minutes on two idle cores
    python -m benchmarks.competition isolation    one part: overhead, isolation or load
    python -m benchmarks.competition direct …     what the overhead part starts for its direct side
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from longshot.arena import Competition, connect, create, load, queue, submission_runs, write_baseline
from longshot.arena.box import Box
from longshot.arena.competition_data import CompetitionData
from longshot.arena.database_tables import events, submissions
from longshot.arena.inside.spawn import Meter
from longshot.arena.store import Store

TRAIN_TASKS, TEST_TASKS, ROUNDS = 12, 2, 3
FEW_TASKS, TASKS_EACH, STARTS = (
    6,
    4,
    2,
)  # of the isolation part: training, test per dataset, boxes started anew
SUBMISSIONS, SUBMITTERS, WORKERS = 100, 8, 2


class Metered(Box):
    """A box that says what it cost from start to end: its own processes, read just before they end, and ours."""

    spent: ClassVar[dict[str, float]] = {}

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.begun = (time.process_time(), time.monotonic())
        super().__init__(*arguments, **options)

    def close(self) -> None:
        inside = Meter(self._process.pid).look()[1]
        super().close()
        ours = time.process_time() - self.begun[0]
        wall = time.monotonic() - self.begun[1]
        Metered.spent = {"cpu": inside + ours, "wall": wall, "runner": ours}


def overhead() -> None:
    """Both sides in turns; a line per round, then the median ratios."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        competition = create(folder / "competition", tasks=TEST_TASKS)
        code = _prototypical(folder / "prototypical")
        data, phase = CompetitionData(competition), competition.phase("feedback")
        hidden = data.test_tasks(phase, 1)
        tasks = folder / "tasks.json"
        tasks.write_text(json.dumps([_open(task) for task in hidden]))
        for name in phase.test:
            data.pixels(name)  # images are cut to size once per competition, not per run
        for name, file in data.training_files(phase).items():
            (folder / "data").mkdir(exist_ok=True)
            (folder / "data" / name).symlink_to(file)
        seconds = os.getloadavg()[0]
        print(f"{TRAIN_TASKS} training tasks, {len(hidden)} test tasks; load average {seconds:.1f}")
        print(f"{'':>6} {'processor seconds':>34} {'by the clock':>34}")
        titles = ("sandbox", "direct", "ratio", "w/o start") * 2
        print(f"{'round':>6} " + " ".join(f"{title:>8}" for title in titles))
        rounds = []
        for number in range(ROUNDS):
            other = direct(code, folder, competition)
            ours, answers = boxed(data, code, folder / f"run-{number}")
            assert answers == other.pop("answers"), "the two sides answered differently"
            by_clock = {}
            for clock in ("cpu", "wall"):
                total, start = other[clock], other[f"{clock}_start"]
                by_clock[clock] = (ours[clock], total, ours[clock] / total, ours[clock] / (total - start))
            rounds.append([*by_clock["cpu"], *by_clock["wall"]])
            print(f"{number + 1:>6} " + " ".join(f"{value:8.2f}" for value in rounds[-1]), flush=True)
        middle = [statistics.median(column) for column in zip(*rounds, strict=True)]
        print(f"of which the organiser's process, last round: {ours['runner']:.2f} processor seconds")
        print(f"median {' '.join(f'{value:8.2f}' for value in middle)}")
        verdict = "" if middle[2] < 1.15 else "   MISSED"
        print(
            f"overhead in processor time: {middle[2] - 1:.1%} of the whole, {middle[3] - 1:.1%} of the work{verdict}"
        )


def isolation() -> None:
    """Runs with a process for every task and with one for all, in turns; then what starting anew would add."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        competition = create(folder / "competition", tasks=TASKS_EACH)
        code = _prototypical(folder / "prototypical", FEW_TASKS)
        phase = competition.phase("feedback")
        sides = {
            name: CompetitionData(competition.model_copy(update={"isolation": name}))
            for name in ("run", "task")
        }
        tasks = sides["run"].test_tasks(phase, 1)
        for name in (*phase.train, *phase.test):
            sides["run"].pixels(name)  # images are cut to size once per competition, not per run
        print(f"\n{FEW_TASKS} training tasks, {len(tasks)} test tasks; load average {os.getloadavg()[0]:.1f}")
        titles = ("one", "each", "ratio") * 2
        print(f"{'':>6} {'processor seconds':>26} {'by the clock':>26}")
        print(f"{'round':>6} " + " ".join(f"{title:>8}" for title in titles))
        rounds = []
        for number in range(ROUNDS):
            spent, answers = {}, {}
            for name, data in sides.items():
                spent[name], answers[name] = boxed(data, code, folder / f"run-{name}-{number}")
            assert answers["run"] == answers["task"], "the two sides answered differently"
            line = []
            for clock in ("cpu", "wall"):
                together, apart = spent["run"][clock], spent["task"][clock]
                line += [together, apart, apart / together]
            rounds.append(line)
            print(f"{number + 1:>6} " + " ".join(f"{value:8.2f}" for value in line), flush=True)
        middle = [statistics.median(column) for column in zip(*rounds, strict=True)]
        verdict = "" if max(middle[2], middle[5]) <= 1.5 else "   MISSED"
        print(f"median {' '.join(f'{value:8.2f}' for value in middle)}")
        print(
            f"a process for every task: {middle[2]:.2f} of the processor time, {middle[5]:.2f} of the time{verdict}"
        )
        anew = [_start_anew(sides["task"], code, folder / f"anew-{number}") for number in range(STARTS)]
        cpu, wall = (statistics.median(values) for values in zip(*anew, strict=True))
        print(
            f"started anew: {cpu:.2f} s of processor time and {wall:.2f} s for every task, "
            f"{1 + len(tasks) * cpu / middle[0]:.2f} and {1 + len(tasks) * wall / middle[3]:.2f} of a run"
        )


def _start_anew(data: CompetitionData, code: Path, out: Path) -> tuple[float, float]:
    """Processor seconds and seconds from nothing to a process of the submission that is gone again."""
    out.mkdir()
    phase = data.competition.phase("feedback")
    with Metered(code, data.training_files(phase), phase.limits, out / "log.txt") as box, box.process():
        pass
    return Metered.spent["cpu"], Metered.spent["wall"]


def _prototypical(folder: Path, train_tasks: int = TRAIN_TASKS) -> Path:
    """The baseline in small, on one thread; it does not validate: training and tasks are timed."""
    settings = {"network": "cnn4(width=16)", "train_tasks": train_tasks}
    code = write_baseline("prototypical", folder, settings)
    config = json.loads((code / "config.json").read_text())
    (code / "config.json").write_text(json.dumps({**config, "validation_datasets": None}))
    model = code / "model.py"
    model.write_text(f"import torch\n\ntorch.set_num_threads(1)\n{model.read_text()}")
    return code


def boxed(data: CompetitionData, code: Path, out: Path) -> tuple[dict[str, float], list[list[int]]]:
    """A run in the sandbox; processor time is that of the box and of this process, without the page of results."""
    submission_runs.Box = Metered  # type: ignore[attr-defined]
    outcome = submission_runs.run(data, data.competition.phase("feedback"), code, out, seed=1)
    assert outcome.scores is not None, outcome.reason
    lines = (out / "answers.jsonl").read_text().splitlines()
    return Metered.spent, [json.loads(line)["predicted"] for line in lines]


def direct(code: Path, folder: Path, competition: Competition) -> dict[str, Any]:
    """The same code called in a process of its own; gives what it used and its answers."""
    images = {
        name: str(CompetitionData(competition).pixels(name).filename)  # type: ignore[attr-defined]
        for name in competition.phase("feedback").test
    }
    arguments = [
        sys.executable,
        "-m",
        "benchmarks.competition",
        "direct",
        str(code),
        str(folder),
        json.dumps(images),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = time.monotonic()
    done = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    measured["wall"] = time.monotonic() - wall
    measured["cpu"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return measured


def called_directly(code: Path, folder: Path, images: dict[str, str]) -> None:
    """Meta-train and answer without walls, pipe or host: what `direct` starts. Prints JSON."""
    import torch

    from longshot.arena.inside import api, blind_tasks, feed, host

    begun = time.monotonic()
    start = {"cpu_start": time.process_time(), "wall_start": begun - _process_start()}
    sys.path.insert(0, str(code))
    sys.modules["api"] = api
    import model  # type: ignore[import-not-found]

    host.seed_everything(1)
    rng = np.random.default_rng(1)
    config = feed.read_config(code / "config.json")
    sources, _ = feed.hold_out(feed.open_sources(folder / "data"), config["validation_datasets"], rng)
    training = feed.task_generator(sources, config["train_config"], rng)
    total = sum(len(source.sizes) for source in sources)
    learner_folder = Path(tempfile.mkdtemp(dir=folder))
    model.MyMetaLearner(config["train_config"]["N"], total, host.Logger()).meta_fit(training, None).save(
        str(learner_folder)
    )
    pixels = {name: np.load(file, mmap_mode="r") for name, file in images.items()}
    answers = []
    for task in json.loads((folder / "tasks.json").read_text()):
        host.seed_everything(task["seed"])
        labels = torch.tensor(task["labels"])
        learner = model.MyLearner()
        learner.load(str(learner_folder))
        support = feed.images(pixels[task["dataset"]][task["support"]])
        predictor = learner.fit((support, labels, labels.clone(), task["ways"], task["shots"]))
        predicted = host.plain(predictor.predict(feed.images(pixels[task["dataset"]][task["query"]])))
        answers.append(blind_tasks.labels_from(predicted, len(task["query"]), task["ways"]).tolist())
    print(json.dumps({**start, "answers": answers}))


def _open(task: Any) -> dict[str, Any]:
    facts = {"dataset": task.dataset, "ways": task.ways, "shots": task.shots, "seed": task.seed}
    rows = {"support": task.support, "labels": task.support_label, "query": task.query}
    return {**facts, **{name: array.tolist() for name, array in rows.items()}}


def _process_start() -> float:
    """When this process began, on the monotonic clock."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    since_boot = ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)


def under_load() -> None:
    """A hundred submissions of the random baseline; prints the rate and that each was scored once."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = write_baseline("random", folder / "random")
        _small(folder)
        context = multiprocessing.get_context("spawn")
        share = [SUBMISSIONS // SUBMITTERS + (i < SUBMISSIONS % SUBMITTERS) for i in range(SUBMITTERS)]
        entering = [context.Process(target=_submit, args=(folder, source, i, n)) for i, n in enumerate(share)]
        begun = time.monotonic()
        for process in entering:
            process.start()
        for process in entering:
            process.join()
        entered = time.monotonic()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        working = [context.Process(target=_work, args=(folder,)) for _ in range(WORKERS)]
        for process in working:
            process.start()
        for process in working:
            process.join()
        took = time.monotonic() - entered
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        store = Store(load(folder))
        states = Counter(row["state"] for row in store.rows(submissions.select()))
        ends = Counter(row["submission"] for row in store.rows(events.select()) if ": scored" in row["what"])
        once = len(ends) == SUBMISSIONS and set(ends.values()) == {1}
        print(f"\n{SUBMISSIONS} submissions by {SUBMITTERS} processes, entered in {entered - begun:.1f} s")
        print(f"{WORKERS} workers: {took:.0f} s, {SUBMISSIONS / took * 60:.0f} runs a minute; {dict(states)}")
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"processor time of the workers themselves: {spent / SUBMISSIONS:.2f} s a run")
        fine = once and states == {"scored": SUBMISSIONS}
        print("each was scored once" if fine else "MISSED: not every submission was scored once", flush=True)


def _small(folder: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 8)
    for name in ("one", "two"):
        pixels = rng.integers(0, 256, (32, 16, 16, 3), dtype=np.uint8)
        np.savez(folder / f"{name}.npz", images=pixels, labels=labels)
    phase = "{train: [one], test: [two], tasks: 5, per_day: 0, total: 0, limits: {seconds: 600}}"
    (folder / "competition.yaml").write_text(
        f"title: load\ndatasets: {{one: {folder}/one.npz, two: {folder}/two.npz}}\nimage_size: 16\n"
        f"shape: {{max_way: 3, max_shot: 3, query: 4}}\nphases:\n  feedback: {phase}\n"
    )


def _submit(folder: Path, source: Path, name: int, count: int) -> None:
    competition = load(folder)
    store = Store(competition)
    for _ in range(count):
        queue.enter(competition, store, source, team=f"team {name}", phase="feedback", league="free-style")


def _work(folder: Path) -> None:
    connect(folder).work()


def main(parts: Sequence[str] = ()) -> None:
    if not parts or "overhead" in parts:
        overhead()
    if not parts or "isolation" in parts:
        isolation()
    if not parts or "load" in parts:
        under_load()


if __name__ == "__main__":
    if sys.argv[1:2] == ["direct"]:
        called_directly(Path(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4]))
    else:
        main(sys.argv[1:])
