"""Datasets of the Hugging Face Hub: ``hub:OWNER/NAME[@REVISION]``, through the package huggingface_hub."""

from __future__ import annotations

import os
import re
import shutil
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from longshot.base import UserError, count, explain_disk_errors, file_lock, first, note, write_json
from longshot.data.catalogue import add_dataset
from longshot.data.dataset import Dataset
from longshot.data.get.fetch import in_bytes, nearest_folder, need_space
from longshot.data.get.sources import RECORD
from longshot.data.images import is_image_name

_FORM = re.compile(r"hub:(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")
# What is read without running it. Scripts and pickles of third parties are not even downloaded.
_TAKEN = (".parquet", ".arrow", ".json", ".jsonl", ".csv", ".tsv", ".txt", ".md", ".tar", ".zip")


class HubFile(NamedTuple):
    """A file of a repository, and its bytes where the Hub says so."""

    name: str
    bytes: int | None


class HubPlan(NamedTuple):
    """A repository at one commit: the files that are taken, and those that are not."""

    repository: str
    commit: str
    licence: str | None
    taken: list[HubFile]
    refused: list[str]

    @property
    def bytes(self) -> int | None:
        sizes = [file.bytes for file in self.taken]
        return None if None in sizes else sum(size for size in sizes if size is not None)


def get_from_hub(name: str, folder: Path) -> Dataset:
    """Download a dataset of the Hub into ``folder/OWNER--NAME`` and register it as ``OWNER--NAME``."""
    hub = _hub()
    plan = _plan(hub, name)
    called = plan.repository.replace("/", "--")
    target = folder / called
    if plan.bytes is not None:
        need_space(target, plan.bytes, f"'{name}'")
    if plan.refused:
        note(
            f"{count(plan.refused, 'file')} of {name} ({first(plan.refused)}) left out: scripts, pickles and other "
            f"files that are not read."
        )
    with (
        file_lock(target / ".lock", waiting=f"another command is getting '{name}'; waiting for it …"),
        explain_disk_errors(target),
    ):
        _asked(
            name,
            hub,
            lambda: hub.snapshot_download(
                plan.repository,
                repo_type="dataset",
                revision=plan.commit,
                local_dir=target,
                endpoint=os.environ.get("HF_ENDPOINT"),
                allow_patterns=[_literal(file.name) for file in plan.taken],
            ),
        )
        write_json(
            target / RECORD,
            {
                "name": name,
                "commit": plan.commit,
                "licence": plan.licence,
                "files": [f.name for f in plan.taken],
            },
        )
    try:
        return add_dataset(called, target).dataset
    except UserError as error:
        raise UserError(
            f"{name} was got and lies in {target}, but it could not be opened: {error.template.rstrip('.')}",
            f"open a part of it, or say its format, with {{data.add_dataset({called}, PATH)}}",
        ) from error


def plan_from_hub(name: str, folder: Path) -> dict[str, Any]:
    """What getting ``name`` would do; only the list of its files is asked of the Hub."""
    plan = _plan(_hub(), name)
    target = folder / plan.repository.replace("/", "--")
    return {
        "name": name,
        "title": f"{plan.repository} at commit {plan.commit[:12]}",
        "licence": plan.licence or "not known",
        "folder": str(target),
        "free": shutil.disk_usage(nearest_folder(target)).free,
        "bytes": plan.bytes,
        "size": "not known" if plan.bytes is None else in_bytes(plan.bytes),
        "files": [
            {"name": file.name, "urls": [], "bytes": file.bytes, "checksum": "by the Hub"}
            for file in plan.taken
        ],
    }


def _hub() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError as error:
        raise UserError(
            "Datasets of the Hub need the package huggingface_hub; run: pip install 'longshot[hub]'."
        ) from error


def _plan(hub: Any, name: str) -> HubPlan:
    match = _FORM.fullmatch(name)
    if match is None:
        raise UserError(
            f"'{name[:120]}' is no dataset of the Hub", "write hub:OWNER/NAME or hub:OWNER/NAME@REVISION"
        )
    repository = match["repository"]
    info = _asked(
        name,
        hub,
        lambda: hub.HfApi(endpoint=os.environ.get("HF_ENDPOINT")).dataset_info(
            repository, revision=match["revision"], files_metadata=True, timeout=60
        ),
    )
    taken, refused = [], []
    for sibling in info.siblings or ():
        path = PurePosixPath(sibling.rfilename)
        if any(part.startswith(".") for part in path.parts):
            continue
        if path.suffix.lower() in _TAKEN or is_image_name(path.name):
            taken.append(HubFile(str(path), sibling.size))
        else:
            refused.append(str(path))
    if not any(PurePosixPath(file.name).suffix != ".md" for file in taken):
        raise UserError(
            f"{name} holds no images or tables that Longshot reads (found: {first(refused) or 'nothing'})",
            "choose a repository with Parquet files, shards or images",
        )
    card = getattr(info, "card_data", None)
    licence = getattr(card, "license", None) if card is not None else None
    return HubPlan(
        repository,
        str(info.sha),
        ", ".join(licence) if isinstance(licence, list) else licence,
        taken,
        refused,
    )


def _asked(name: str, hub: Any, call: Any) -> Any:
    """The answer of the Hub; its refusals in one sentence."""
    errors = import_module("huggingface_hub.errors")
    page = f"https://huggingface.co/datasets/{name.removeprefix('hub:').partition('@')[0]}"
    try:
        return call()
    except errors.GatedRepoError as error:
        raise UserError(
            f"{name} asks for your consent", f"give it at {page} and log in with: hf auth login"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise UserError(
            f"{name} has no such revision", f"choose one that {page} lists, or leave it out"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise UserError(
            f"There is no dataset at {page}, or it is private", "mend the name, or log in with: hf auth login"
        ) from error
    except UserError:
        raise
    except OSError as error:  # connections, refusals of the server and of the disk
        if None not in (error.errno, error.filename) and getattr(error, "response", None) is None:
            raise
        raise UserError(f"{name} could not be got: {_short(error)}", "do the same again later") from error
    except Exception as error:  # the library's own kinds: a file that arrived otherwise, a name it dislikes
        raise UserError(f"{name} could not be got: {_short(error)}", "do the same again later") from error


def _short(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return re.sub(r"^\[Errno -?\d+\] ", "", lines[0] if lines else type(error).__name__)[:200].rstrip(".")


def _literal(name: str) -> str:
    """A file's name as a pattern that fits it alone."""
    return re.sub(r"([*?\[])", r"[\1]", name)
