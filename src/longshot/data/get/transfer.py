"""One file over HTTP: resumed by range requests, from the first mirror that serves it, compared with its checksum.

``pooch`` compares checksums and puts the file in its place; the transfer itself is here, because it must go on where a
dropped connection or a stopped command left off.
"""

from __future__ import annotations

import errno
import json
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from longshot.base import Progress, UserError, explain_disk_errors, hash_file, in_bytes, note, write_json

if TYPE_CHECKING:
    from longshot.data.get.sources import RemoteFile


_CHUNK = 1 << 20
_ARRIVALS = 3  # that have another checksum than is published, before the next mirror is asked
_TRIES = 5  # that bring not one byte, before the next mirror is asked
_TIMES = (15, 60)  # seconds to connect, and of silence
_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))  # states of a server that may pass
RESERVE = 200 << 20  # bytes of disk that stay free
pause: Callable[[float], None] = time.sleep  # exchanged by tests


@dataclass(frozen=True)
class Fetched:
    """A file that is there: where, from which address, its own SHA-256, and the checksum it was compared with."""

    path: Path
    url: str
    sha256: str
    checked: str | None


class Unavailable(Exception):
    """An address that does not serve the file; the rest of a sentence that begins with the address."""


def fetch(file: RemoteFile, folder: Path, bar: Progress) -> Fetched:
    """Download a file into a folder, or go on with it; a file that is there whole is not asked for again.

    Parameters
    ----------
    file : RemoteFile
        Addresses, size and checksum.
    folder : Path
        Where it goes; what is not whole yet lies there as ``NAME.part``.
    bar : Progress
        Advanced by whole megabytes.

    Returns
    -------
    Fetched
    """
    transfer = _Transfer(file, folder, bar)
    faults = []
    for url in file.urls:
        try:
            return _from_address(url, file, folder, transfer)
        except Unavailable as fault:
            faults.append(f"{_host(url)} {fault}")
        if len(faults) < len(file.urls):
            note(f"{faults[-1]}; the next address of {file.name} is asked.")
    raise UserError(
        f"{file.name} could not be got from {'its address' if len(faults) == 1 else f'{len(faults)} addresses'}: "
        f"{'; '.join(faults)}",
        "do the same again later (what has arrived is kept), or fetch the file yourself",
    )


def _from_address(url: str, file: RemoteFile, folder: Path, transfer: _Transfer) -> Fetched:
    """Get the file from one address; ``Unavailable`` where it does not serve it, or serves another."""
    pooch = import_module("pooch")
    pooch.get_logger().setLevel(logging.WARNING)  # what it would say is said here
    check_address(url)
    arrived: list[str] = []  # what pooch says of each arrival: its checksum is in it
    while len(arrived) < _ARRIVALS:
        try:
            with explain_disk_errors(folder):
                path = pooch.retrieve(url, file.checksum, fname=file.name, path=folder, downloader=transfer)
            return Fetched(Path(path), transfer.used or url, hash_file(path), file.checksum)
        except ValueError as error:  # pooch's word for another checksum
            if "hash" not in str(error):
                raise
            if str(error) in arrived and not transfer.resumed:
                break  # the same bytes twice are no damage: another file lies there
            arrived.append(str(error))
            if len(arrived) < _ARRIVALS:
                note(f"{file.name} arrived damaged from {_host(url)}; it is asked for again, from the start.")
    times = "" if len(arrived) < _ARRIVALS else f", {_ARRIVALS} times and each time others"
    raise Unavailable(f"sent other bytes than the published {file.checksum}{times}")


def remote_size(url: str) -> int | None:
    """Ask a server for the bytes behind an address; None where it does not say or is not there."""
    requests = import_module("requests")
    try:
        check_address(url)
        with requests.head(url, allow_redirects=True, timeout=_TIMES[0], headers=_headers()) as answer:
            length = answer.headers.get("Content-Length", "")
            return int(length) if answer.ok and length.isdecimal() else None
    except (requests.RequestException, Unavailable, ValueError):
        return None


def check_address(url: str) -> None:
    """Raise ``Unavailable`` for an address that is not of the web: a redirect must not reach local files."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise Unavailable(f"leads to {url[:120]}, and only http and https are followed")


def need_space(folder: Path, needed: int, purpose: str) -> None:
    """Raise UserError where a disk has less room than ``needed`` bytes and a reserve."""
    free = shutil.disk_usage(nearest_folder(folder)).free
    if free < needed + RESERVE:
        raise UserError(
            f"{purpose} needs {in_bytes(needed)} in {folder}, and {in_bytes(free)} are free (of which "
            f"{in_bytes(RESERVE)} stay so)",
            "free some space or choose another disk with {to}",
        )


def nearest_folder(folder: Path) -> Path:
    """Return the folder itself, or the nearest above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.is_dir())


def _appended(path: Path) -> IO[bytes]:
    return path.open("ab")


def _host(url: str) -> str:
    return urlsplit(url).hostname or url[:80]


def _headers() -> dict[str, str]:
    # identity: a length that a server packs on the way is not the length of the file
    return {"User-Agent": f"longshot/{version('longshot')}", "Accept-Encoding": "identity"}


class _Transfer:
    """What pooch calls to download: goes on with ``NAME.part`` and hands it over when it is whole."""

    def __init__(self, file: RemoteFile, folder: Path, bar: Progress) -> None:
        self.file, self.bar = file, bar
        self.part, self.state = folder / f"{file.name}.part", folder / f"{file.name}.part.json"
        self.used: str | None = None
        self.resumed, self.reason = False, ""
        self.begun, self.shown = False, 0  # megabytes of this file that the bar has

    def __call__(self, url: str, output: str, pooch: object = None) -> None:
        """Bring all bytes behind ``url`` to ``output``; ``Unavailable`` when it cannot be."""
        requests = import_module("requests")
        broken = import_module("urllib3").exceptions.HTTPError  # while bytes are read as they are
        self.used, self.resumed = None, self._size() > 0
        barren, self.reason = 0, "does not answer"
        while barren < _TRIES:
            before = self._size()
            try:
                if self._attempt(url):
                    Path(self.part).replace(output)
                    self.state.unlink(missing_ok=True)
                    return
            except requests.exceptions.InvalidSchema as error:
                raise Unavailable(f"leads elsewhere than to the web ({str(error)[-120:]})") from error
            except (requests.exceptions.InvalidURL, requests.exceptions.TooManyRedirects) as error:
                raise Unavailable(f"cannot be followed ({str(error)[:120]})") from error
            except requests.exceptions.SSLError as error:
                raise Unavailable("has no certificate that can be trusted") from error
            except (requests.exceptions.RequestException, broken) as error:
                state = "broke off" if self._size() > before else "cannot be reached"
                self.reason = f"{state} ({type(error).__name__})"
            barren = 0 if self._size() > before else barren + 1
            if barren < _TRIES:
                wait = 2.0 ** max(barren - 1, 0)  # 1, 2, 4, 8 seconds
                note(f"{_host(url)} {self.reason}; {self.file.name} is asked for again in {wait:.0f} s.")
                pause(wait)
        raise Unavailable(f"{self.reason}, {_TRIES} times without a new byte")

    def _attempt(self, url: str) -> bool:
        """Make one request; tell whether the file is whole now."""
        start = self._resumable(url)
        requests = import_module("requests")
        headers = {**_headers(), **({"Range": f"bytes={start}-"} if start else {})}
        mark = self._state().get("mark")
        if start and mark and self._state().get("url") == url:
            headers["If-Range"] = mark  # the whole file again where it is another by now
        with requests.get(url, headers=headers, stream=True, timeout=_TIMES) as answer:
            self._check_way(url, answer)
            if answer.status_code == 416:  # nothing behind what is here
                total = answer.headers.get("Content-Range", "").rpartition("/")[2]
                if total == str(start):
                    return True
                self._restart()
                return False
            if answer.status_code in _AGAIN:
                self.reason = f"answers {answer.status_code}"
                return False
            if answer.status_code not in (200, 206):
                raise Unavailable(f"answers {answer.status_code} ({_meaning(answer.status_code)})")
            packed = self.file.name.endswith((".gz", ".tgz"))
            if answer.headers.get("Content-Encoding", "identity") != "identity" and not packed:
                raise Unavailable("packs the file on its way, although it was asked not to")
            page = self.file.name.endswith((".html", ".htm"))
            if answer.headers.get("Content-Type", "").startswith("text/html") and not page:
                raise Unavailable(
                    "sent a web page where the file should be, as for a login or a confirmation"
                )
            start = self._begin(answer, start)
            total = self._total(answer, start)
            self._remember(url, answer)
            self._write(answer, start, total)
        size = self._size()
        if total is None or size == total:
            self.used = url
            return True
        if size > total:
            self._restart()
            raise Unavailable(f"sent {size:,} bytes where {total:,} were announced")
        self.reason = f"ended after {size:,} of {total:,} bytes"
        return False

    def _check_way(self, url: str, answer: Any) -> None:
        """Refuse a way that leaves the web, or that loses its encryption where no checksum would notice."""
        ways = [url, *(step.url for step in answer.history), answer.url]
        for step in ways:
            check_address(step)
        schemes = [urlsplit(step).scheme for step in ways]
        if "https" in schemes and "http" in schemes[schemes.index("https") :] and self.file.checksum is None:
            raise Unavailable(
                "leads from https to http, and no checksum is published that would notice a change"
            )

    def _resumable(self, url: str) -> int:
        """Count the bytes that can be continued from: with a checksum any, otherwise only those of the same answer."""
        state = self._state()
        same = state.get("url") == url and state.get("mark")
        if self._size() and self.file.checksum is None and not same:
            self._restart()
        return self._size()

    def _begin(self, answer: Any, start: int) -> int:
        """Return where the bytes of an answer go: behind what is here, or to the start of an empty file."""
        if answer.status_code == 206:
            sent = answer.headers.get("Content-Range", "")
            if sent.removeprefix("bytes ").partition("-")[0] == str(start):
                return start
            self._restart()
            raise Unavailable(f"answers with another part than was asked for ('{sent[:60]}')")
        self._restart()
        return 0

    def _total(self, answer: Any, start: int) -> int | None:
        """Return the bytes of the whole file; ``Unavailable`` where the server announces another number."""
        length = answer.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else self.file.bytes
        if total is not None and self.file.bytes not in (None, total):
            raise Unavailable(f"announces {total:,} bytes where the file has {self.file.bytes:,}")
        return total

    def _write(self, answer: Any, start: int, total: int | None) -> None:
        self.part.parent.mkdir(parents=True, exist_ok=True)
        need_space(self.part.parent, (total or start) - start, self.file.name)
        self._count(start)
        # A short answer is noticed by its size, and its bytes are kept.
        answer.raw.enforce_content_length = False
        # Bytes as they are: servers call a .tgz "packed on its way", and requests would unpack it.
        chunks = answer.raw.stream(_CHUNK, decode_content=False)
        limit = total if total is not None else shutil.disk_usage(self.part.parent).free - RESERVE
        try:
            with _appended(self.part) as out:
                for chunk in chunks:
                    out.write(chunk)
                    start += len(chunk)
                    self._count(start)
                    if start > limit:
                        break
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise UserError(
                    f"The disk is full after {in_bytes(self._size())} of {self.file.name}; they are kept",
                    "free some space and do the same again, or choose another disk with {to}",
                ) from error
            raise

    def _count(self, size: int) -> None:
        """Tell the bar how much of this file is here; what an earlier command brought says nothing of the speed."""
        megabytes = size // 1_000_000
        if megabytes > self.shown:
            (self.bar.advance if self.begun else self.bar.skip)(megabytes - self.shown)
            self.shown = megabytes
        self.begun = True

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def _restart(self) -> None:
        self.part.unlink(missing_ok=True)
        self.state.unlink(missing_ok=True)

    def _state(self) -> dict[str, Any]:
        """Read from which address the bytes here came, and the mark of the file there."""
        try:
            content = json.loads(self.state.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def _remember(self, url: str, answer: Any) -> None:
        tag = answer.headers.get("ETag", "")
        mark = tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified")
        write_json(self.state, {"url": url, "mark": mark})


def _meaning(status: int) -> str:
    words = {401: "it asks for a login", 403: "it is forbidden", 404: "it is not there", 410: "it is gone"}
    return words.get(status, "no file")
