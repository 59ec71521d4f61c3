"""What can be got: the sources of ``sources.json``, datasets of the Hugging Face Hub; and where it goes.

``LONGSHOT_SOURCES`` names a file of the same form, whose sources are added and replace those of the same name: a
laboratory's own mirror, or datasets of one's own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from longshot.base import (
    Record,
    UserError,
    count,
    explain_disk_errors,
    file_lock,
    first,
    in_bytes,
    nearest_name,
    note,
    read_record,
    write_json,
)
from longshot.data import registry
from longshot.data.catalogue import add_dataset
from longshot.data.dataset import Dataset
from longshot.data.get.transfer import nearest_folder, need_space
from longshot.data.stores import is_image_name

DOWNLOADS = ".downloads"  # hidden, so that no reader takes it for a class
RECORD = ".longshot-get.json"  # in a dataset's folder: what was got from where, and its checksums


def _inside(path: str) -> str:
    """Check that a path stays below the dataset's folder."""
    parts = PurePosixPath(path).parts
    if path.startswith(("/", "~")) or ".." in parts or "\\" in path or ":" in path:
        raise ValueError("it must be a path below the dataset's folder")
    return path


def _file_name(name: str) -> str:
    if not name or "/" in _inside(name) or name.startswith("."):
        raise ValueError("it must be the name of a file")
    return name


def _dataset_name(name: str) -> str:
    try:
        registry.check_name(name)
    except UserError as error:
        raise ValueError(error.fact.removesuffix(".")) from None
    return name


Inside = Annotated[str, AfterValidator(_inside)]
Sum = Annotated[str, Field(pattern="^[0-9a-f]+$")]
Bytes = Annotated[int, Field(ge=0)]


class RemoteFile(Record):
    """One file of a source: where it lies, what it must be, and what to do with it."""

    name: Annotated[str, AfterValidator(_file_name)]
    urls: Annotated[tuple[str, ...], Field(min_length=1)]  # the first is asked first, the others are mirrors
    bytes: Bytes | None = None
    about: Bytes | None = None  # as its page says, where the exact number is not published
    sha256: Sum | None = None
    md5: Sum | None = None
    unpack: bool = False
    into: Inside = ""  # the folder below the dataset's own that it belongs to

    @property
    def checksum(self) -> str | None:
        """Return ``sha256:…`` or ``md5:…``; None where none is published."""
        if self.sha256:
            return f"sha256:{self.sha256}"
        return f"md5:{self.md5}" if self.md5 else None

    @property
    def size(self) -> int | None:
        """Count the bytes, exact or about; None where neither is known."""
        return self.bytes if self.bytes is not None else self.about


class ByHand(Record):
    """What a person must fetch, and what to do with it then."""

    where: str
    why: str
    then: str
    opens: bool = True  # whether what is fetched is opened then, or another dataset does instead
    reader: str | None = None  # the format to open it with, where its files do not tell


class Source(Record):
    """A published dataset: its files and the reader that opens them, or why a person must fetch it."""

    name: Annotated[str, AfterValidator(_dataset_name)]
    title: str = ""
    licence: str | None = None
    studies: tuple[str, ...] = ()
    files: tuple[RemoteFile, ...] = ()
    inner: tuple[Inside, ...] = ()  # archives inside the archives
    reader: str | None = (
        None  # a format with its settings; where there is none, a plain folder of class folders
    )
    path: Inside = ""  # what the reader opens, below the dataset's folder
    classes: int | None = None  # how many there must be then
    by_hand: ByHand | None = None

    @property
    def size(self) -> int | None:
        """Count the bytes to download; None where the size of a file is not known."""
        sizes = [file.size for file in self.files]
        return None if not sizes or None in sizes else sum(size for size in sizes if size is not None)

    @property
    def exact(self) -> bool:
        """Tell whether ``size`` is a published number and no rounded one."""
        return all(file.bytes is not None for file in self.files)


def all_sources() -> dict[str, Source]:
    """Return {name: source}, sorted by name; those of the file in ``LONGSHOT_SOURCES`` replace the package's."""
    own = os.environ.get("LONGSHOT_SOURCES")
    sources = {**_published(), **(_own(Path(own).expanduser()) if own else {})}
    return dict(sorted(sources.items()))


@cache
def _published() -> dict[str, Source]:
    text = (files("longshot.data.get") / "sources.json").read_text("utf-8")
    return _read(json.loads(text), "sources.json")


def _own(file: Path) -> dict[str, Source]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UserError(
            f"Cannot open {file}, which LONGSHOT_SOURCES names: {error.strerror}",
            "mend the variable or unset it",
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{file}, which LONGSHOT_SOURCES names, is not valid JSON ({error})", "mend it"
        ) from error
    return _read(content, str(file))


def _read(content: Any, where: str) -> dict[str, Source]:
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        raise UserError(
            f"{where} must hold a JSON list of sources", "put each source in braces, all in brackets"
        )
    sources = [
        read_record(Source, entry, f"The source {entry.get('name', number)!r} of {where}")
        for number, entry in enumerate(content)
    ]
    for source in sources:
        if bool(source.files) == (source.by_hand is not None):
            raise UserError(
                f"The source '{source.name}' of {where} needs either files or by_hand", "add one of them"
            )
    return {source.name: source for source in sources}


def find_source(name: str) -> Source:
    """Find the source called ``name``, in any case and with ``_`` or ``-``; UserError with the nearest name."""
    sources = all_sources()
    spelled = str(name).strip().lower().replace("_", "-")
    if spelled not in sources:
        near = nearest_name(spelled, sources, "there are")
        hint = near if near.startswith("did") else "{data.list_downloads()} lists them all."
        raise UserError(f"There is no source '{name}' to get a dataset from; {hint}")
    return sources[spelled]


def need_files(source: Source) -> None:
    """Raise UserError where a person must fetch a source, with where, why, and what to do then."""
    if source.by_hand is not None:
        hand = source.by_hand
        state = "must be fetched by hand" if hand.opens else "is not downloaded"
        form = f', form="{hand.reader}"' if hand.reader else ""
        opened = f": {{data.add_dataset({source.name}, PATH{form})}}" if hand.opens else ""
        raise UserError(
            f"'{source.name}' ({source.title}) {state} from {hand.where}, because {hand.why}",
            f"{hand.then}{opened}",
        )


def data_folder(to: str | os.PathLike[str] | None) -> Path:
    """Return the folder that datasets go to: ``to``, what ``LONGSHOT_DATA`` says, or the user's own folder for data."""
    chosen = os.fspath(to) if to is not None else os.environ.get("LONGSHOT_DATA")
    if chosen is None or (to is None and not chosen):
        import platformdirs

        chosen = os.path.join(platformdirs.user_data_dir("longshot", appauthor=False), "datasets")  # noqa: PTH118
    if not chosen:
        raise UserError("The folder to download to is empty text", "give {to} a folder")
    folder = Path(chosen).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file", "give {to} a folder")
    return folder


# Datasets of the Hugging Face Hub: ``hub:OWNER/NAME[@REVISION]``, through the package huggingface_hub.

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
    """Plan what getting ``name`` would do; only the list of its files is asked of the Hub."""
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
    """Ask the Hub; its refusals become one sentence."""
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
    """Escape a file's name to a pattern that fits it alone."""
    return re.sub(r"([*?\[])", r"[\1]", name)
