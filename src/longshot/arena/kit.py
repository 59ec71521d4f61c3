"""The starting kit: one zip with the public data, the settings, baselines and a notebook, to begin with at home.

Unpacked it is a small competition of its own, in which ``longshot compete run`` prints the score that the server would
give in its public phase: the same tasks, the same sandbox.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import numpy as np
import yaml

from longshot.arena.competition_data import PUBLIC_SECRET, CompetitionData
from longshot.arena.environments import list_weights
from longshot.arena.new_competition import BASELINES, write_baseline
from longshot.arena.settings import FILE, Competition, load, template
from longshot.arena.submission_check import write_zip
from longshot.base import OutputKind, UserError, atomic, claim_output, hash_file

OWN = "Apache-2.0, drawn by Longshot"  # the licence of toybox


def _is_kit(path: Path) -> bool:
    """Tell by the names inside whether ``write_kit`` wrote a file."""
    with zipfile.ZipFile(path) as archive:
        return f"kit/{PUBLIC_SECRET}" in archive.namelist()


KIND = OutputKind("kit", {".zip": _is_kit})


def write_kit(folder: str | Path, out: str | Path, *, force: bool = False) -> Path:
    """Write the starting kit of a competition as a zip: public data, settings, baselines, a notebook.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    out : file
        Zip to write.
    force : bool
        Replace what is there, even if it is no kit that Longshot wrote.

    Returns
    -------
    Path
        ``out``.
    """
    out = Path(out)
    claim_output(out, KIND, force=force)
    competition = load(folder)
    phases = [phase for phase in competition.phases if phase.public]
    if not phases:
        raise UserError(
            f"{folder} has 0 phases with public data and a kit needs one",
            "add a phase with 'submissions: false' to competition.yaml",
        )
    names = list(dict.fromkeys(name for phase in phases for name in (*phase.train, *phase.test)))
    licences = {name: _licence(competition, name) for name in names}
    data = CompetitionData(competition)
    pages = {f"pages/{title.replace('/', '-')}.md": file for title, file in competition.pages.items()}
    texts = {
        FILE: _settings(competition, names),
        PUBLIC_SECRET: f"{data.secret(phases[0])}\n",
        "notebook.ipynb": template("notebook.ipynb"),
        **{name: competition.text(file) for name, file in pages.items()},
    }
    if competition.requirements:
        texts[competition.requirements] = competition.text(competition.requirements)
    with tempfile.TemporaryDirectory() as scratch:
        kit = Path(scratch, "kit")
        (kit / "data").mkdir(parents=True)
        rows = []
        for name in names:
            dataset, path = data.dataset(name), kit / "data" / f"{name}.npz"
            labels = np.repeat(np.array(dataset.class_ids), dataset.sizes)
            np.savez_compressed(path, images=data.pixels(name), labels=labels)
            facts = f"{len(dataset):,} | {len(dataset.class_ids)} | {licences[name]} | `{hash_file(path)}`"
            rows.append(f"| `data/{name}.npz` | {facts} |")
        for baseline in BASELINES:
            if baseline != "metadelta":  # which begins with learned weights
                write_baseline(baseline, kit / "baselines" / baseline)
        lent = [f"- `{name}`, {size:,} bytes" for name, size in list_weights(competition)]
        texts["README.md"] = template("kit.md").format(
            title=competition.title,
            leagues=", ".join(competition.leagues),
            shape=competition.shape,
            limits=phases[0].limits,
            pages=f"The organisers' pages: {', '.join(pages)}." if pages else "",
            weights="\n".join(lent) or "None: a submission brings what it needs.",
            data="\n".join(rows),
        )
        for name, text in texts.items():
            (kit / name).parent.mkdir(parents=True, exist_ok=True)
            (kit / name).write_text(text, encoding="utf-8")
        with atomic(out) as temporary:
            write_zip(Path(scratch), temporary)
    return out


def _licence(competition: Competition, name: str) -> str:
    if competition.datasets[name].partition("#")[0] == "toybox":
        return OWN
    if name not in competition.licences:
        raise UserError(
            f"The licence of '{name}' is not said, and its images would be handed out",
            f"write it into {competition.folder / FILE}, as in 'licences: {{{{{name}: CC BY 4.0}}}}'",
        )
    return competition.licences[name]


def _settings(competition: Competition, names: list[str]) -> str:
    """Write the settings that all may know, for public data alone."""
    settings = yaml.safe_load((competition.folder / FILE).read_text(encoding="utf-8"))
    for key in ("database", "server", "pages", "weights", "domain_of"):
        settings.pop(key, None)
    settings["datasets"] = {name: f"data/{name}.npz" for name in names}
    public = {phase.name for phase in competition.phases if phase.public}
    settings["phases"] = {name: phase for name, phase in settings["phases"].items() if name in public}
    settings["domains"] = None
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
