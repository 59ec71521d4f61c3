"""Addresses of files elsewhere, such as ``s3://bucket/photos.zip``, and what goes wrong between here and there.

Addresses are told from paths and shown without secrets; a failure is one sentence, whichever driver it comes from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard
from urllib.parse import urlsplit

from longshot.base.errors import UserError

Location: TypeAlias = str | os.PathLike[str]  # a path here, or a URL as text
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")  # two letters at least: C:// is a drive
_SWALLOWED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]")


def is_url(location: object) -> TypeGuard[str]:
    """Tell whether a place is an address rather than a path on this machine.

    >>> is_url("s3://bucket/photos.zip"), is_url("C:/photos"), is_url("runs/first")
    (True, False, False)
    """
    return isinstance(location, str) and _URL.match(location) is not None


def protocol(url: str) -> str:
    """Return the protocol, ``"s3"`` of ``s3://bucket``, in lower case."""
    match = _URL.match(url)
    assert match is not None
    return match[1].lower()


def shown_location(location: Location) -> str:
    """Write a place for sentences, records and provenance: of a URL neither passwords nor signatures.

    >>> shown_location("https://me:secret@host/a.zip?X-Amz-Signature=1"), shown_location("runs/first")
    ('https://host/a.zip', 'runs/first')
    """
    if not is_url(location):
        return str(location)
    parts = urlsplit(str(location))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def base_name(url: str) -> str:
    """Return the last part of a URL: what a local copy of it is called.

    >>> base_name("s3://bucket/photos.zip"), base_name("s3://bucket/photos/"), base_name("s3://bucket")
    ('photos.zip', 'photos', 'bucket')
    """
    parts = urlsplit(url)
    return Path(parts.path.rstrip("/")).name or parts.netloc.rpartition("@")[2].partition(":")[0] or "root"


def url_inside(url: str, name: str) -> str:
    """Return the address of a file in the folder at ``url``.

    >>> url_inside("s3://bucket/runs/", "run.json")
    's3://bucket/runs/run.json'
    """
    return f"{url.rstrip('/')}/{name}"


def url_beside(url: str, name: str) -> str:
    """Return the address of a file beside the one at ``url``.

    >>> url_beside("s3://bucket/pixels.npy", "pixels.json")
    's3://bucket/pixels.json'
    """
    return url_inside(url.rpartition("/")[0], name)


def looks_swallowed(path: Path) -> bool:
    """Tell whether a path was made of a URL: ``Path`` makes one slash of two.

    >>> looks_swallowed(Path("s3://bucket/photos.zip")), looks_swallowed(Path("photos.zip"))
    (True, False)
    """
    return _SWALLOWED.match(path.as_posix()) is not None


def local_copy(
    location: Location, *, also: Sequence[str] = (), or_nothing: bool = False, grows: bool = False
) -> Path:
    """Return the path of a file or folder on this machine: a path as it is, a URL fetched into the cache.

    Parameters
    ----------
    location : str or path
        A path, or a URL.
    also : sequence of str
        Names of files beside the one at the URL that are fetched with it, where they are there.
    or_nothing : bool
        Where nothing is at the URL, an empty folder instead of a UserError.
    grows : bool
        Whether more files at the URL are nothing to tell, as those of a run.

    Returns
    -------
    Path

    Examples
    --------
    >>> local_copy("photos.zip")
    PosixPath('photos.zip')
    """
    if not is_url(location):
        path = Path(location)
        if looks_swallowed(path) and not path.exists():
            raise UserError(f"'{path}' was a URL that lost a slash when it became a Path", "give it as text")
        return path
    from longshot.base.remote_cache import fetched_copy  # drivers and transfers, which a path does without

    return fetched_copy(str(location), also, or_nothing, grows)


@contextmanager
def opened_copy(location: Location, *, also: Sequence[str] = ()) -> Iterator[Path]:
    """Open a ``local_copy`` for a block that reads it: what is wrong with the copy is told of the URL."""
    path = local_copy(location, also=also)
    try:
        yield path
    except UserError as error:
        if not is_url(location):
            raise
        raise UserError(
            *(text.replace(str(path), shown_location(location)) for text in (error.fact, error.remedy))
        ) from error


# ---- what goes wrong

AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))  # states of a server that may pass
_EXTRA = ("s3", "s3a", "http", "https")  # whose drivers the extra brings
# names of exceptions, since their libraries may not be installed
_BROKEN = {
    *("ClientConnectionError", "ClientPayloadError", "ServerDisconnectedError", "ClientConnectorError"),
    *("ConnectionClosedError", "HTTPClientError", "ResponseParserError", "IncompleteReadError"),
    *("ReadTimeoutError", "ConnectTimeoutError", "FSTimeoutError", "ServerTimeoutError"),
    *("ConnectionError", "TimeoutError"),
}
_UNREACHED = {"EndpointConnectionError"}  # what a driver says that has tried several times itself
_NO_KEYS = {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound"}
_AWS_KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to keys that may"
_KEYS = {"s3": _AWS_KEYS, "s3a": _AWS_KEYS}


def missing_driver(url: str, error: Exception) -> UserError:
    """Return the error for a protocol whose driver is not installed, or that nobody knows."""
    kind = protocol(url)
    install = "pip install 'longshot[remote]'"
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("fsspec"):
        return UserError(f"{shown_location(url)} needs fsspec, which is not installed", install)
    if isinstance(error, ImportError):
        cause = next((link for link in chain(error) if isinstance(link, ModuleNotFoundError)), None)
        name = (cause.name if cause is not None and cause.name else f"a driver for {kind}").partition(".")[0]
        remedy = install if kind in _EXTRA else f"pip install {name}" if cause is not None else str(error)
        return UserError(f"{shown_location(url)} needs {name}, which is not installed", remedy)
    from fsspec.registry import known_implementations

    if kind in known_implementations:
        return UserError(f"{shown_location(url)} is no address that can be reached ({_short(error)}).")
    return UserError(
        f"There is no way to reach '{kind}://', as in {shown_location(url)}",
        "use s3://, https:// or another protocol that fsspec has a driver for",
    )


def explained(url: str, error: Exception, verb: str) -> UserError:
    """Write the sentence about a failure. ``verb`` says what was to be done: "read", "written"."""
    location, status = shown_location(url), status_of(error)
    names = _names(error)
    if isinstance(error, ImportError):
        return missing_driver(url, error)
    if names & _NO_KEYS or status in (401, 403) or isinstance(error, PermissionError):
        reason = "there are no credentials" if names & _NO_KEYS else "access is denied"
        return UserError(
            f"{location} may not be {verb}: {reason}",
            _KEYS.get(protocol(url), "give credentials that may, as its driver takes them"),
        )
    if _no_bucket(error):
        return UserError(
            f"{location} cannot be {verb}: there is no bucket '{urlsplit(url).netloc}'",
            "create it or correct its name",
        )
    if status == 404:
        return UserError(f"There is nothing at {location}", "correct the address")
    if status is not None:
        return UserError(
            f"{location} cannot be {verb}: its server answers {status} again and again"
            if status in AGAIN
            else f"{location} cannot be {verb}: its server answers {status}",
            "try again later",
        )
    if passes(error) or names & _UNREACHED:
        return UserError(
            f"{location} cannot be {verb}: its host cannot be reached or breaks off ({_short(error)})",
            "check the address and the network, then do the same again",
        )
    if isinstance(error, FileNotFoundError):
        return UserError(f"There is nothing at {location}", "correct the address")
    return UserError(
        f"{location} cannot be {verb} ({_short(error)})", "check the address and what may be done there"
    )


def passes(error: Exception) -> bool:
    """Tell whether the same request may work a moment later."""
    status = status_of(error)
    if status is not None:
        return status in AGAIN
    names = _names(error)
    return not names & _UNREACHED and bool(_BROKEN & names)


def absent(error: Exception) -> bool:
    """Tell whether an error says that nothing is there, rather than that one may not look or that a server fails."""
    unreached = passes(error) or bool(_names(error) & _UNREACHED)
    return status_of(error) in (None, 404) and not unreached and not _no_bucket(error)


def status_of(error: BaseException) -> int | None:
    """Return the status of the web answer behind an error."""
    for link in chain(error):
        status: Any = getattr(link, "status", None)
        response = getattr(link, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if isinstance(status, int) and status >= 300:
            return status
    return None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those it comes from."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _names(error: BaseException) -> set[str]:
    """Return the names of an error's classes, and of those it comes from."""
    return {kind.__name__ for link in chain(error) for kind in type(link).__mro__}


def _no_bucket(error: Exception) -> bool:
    return any("NoSuchBucket" in str(link) or "bucket does not exist" in str(link) for link in chain(error))


def _short(error: BaseException) -> str:
    """Write the innermost reason, short."""
    links = list(chain(error))
    text = next((str(link) for link in reversed(links) if str(link)), "") or type(error).__name__
    return text.split("\n")[0].rstrip(".")[:120]
