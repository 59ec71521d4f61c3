"""``longshot.serve`` and ``longshot serve``: the explorer on a port of this machine."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from longshot.base import PLACE, UserError, is_url, verb_options
from longshot.explorer.web_server import QUIET, RunningServer, in_url, is_loopback, listen, own_hosts

if TYPE_CHECKING:
    from longshot.evaluation import Results


Source: TypeAlias = "str | os.PathLike[str] | Results"
PORT = 8420
_SHORTEST_TOKEN = 12


class Explorer(RunningServer):
    """A running explorer. Made by :func:`serve`; in a notebook it shows itself in a frame.

    Parameters
    ----------
    url : str
        Its address.
    server, thread, built
        What answers, where it runs, and what belongs to it.

    Examples
    --------
    >>> import longshot
    >>> explorer = longshot.serve(".")
    >>> explorer.export("/", "copy").name
    'index.html'
    >>> explorer.at("?kind=run").url == explorer.url + "?kind=run"
    True
    >>> listed = explorer.add(".")
    >>> explorer.running
    True
    >>> explorer.close()
    """

    def __init__(self, url: str, server: Any, thread: threading.Thread, built: Any) -> None:
        super().__init__(url, server, thread)
        self._built = built

    def _repr_html_(self) -> str:
        """Render a frame, for notebooks."""
        url = escape(self.url)
        return (
            f'<p><a href="{url}" target="_blank" rel="noopener">{url}</a></p>'
            f'<iframe src="{url}" title="Longshot explorer" width="100%" height="720" style="border:0"></iframe>'
        )

    def at(self, page: str) -> Explorer:
        """Return the same server at another page, as ``testbed.show(317)`` uses it.

        Parameters
        ----------
        page : str
            What stands behind the address: ``testbed/easy-1a2b3c4d5e/task/317``.
        """
        base = self.url.split("?", 1)[0].split("/", 3)
        return Explorer("/".join([*base[:3], page]), self._server, self._thread, self._built)

    def export(self, view: str, out: str | os.PathLike[str], *, pages: int = 25) -> Path:
        """Write a view as a folder that opens from disk, with the pages that it links to.

        Parameters
        ----------
        view : str
            What stands behind the address, as ``/run/first-1a2b3c4d5e/tasks?sort=-spread``.
        out : path
            A new or empty folder.
        pages : int
            How many pages to copy at most, 200 at the most.

        Returns
        -------
        Path
            Its index.html.
        """
        written: Path = self._built.export(view, Path(out), pages)
        return written

    def add(self, root: str | os.PathLike[str]) -> list[Any]:
        """Show one more folder; all that is shown then.

        Parameters
        ----------
        root : path
            The folder.
        """
        listed: list[Any] = self._built.add(Path(root).resolve())
        return listed

    def close(self) -> None:
        """Stop answering and end the processes that decode pictures."""
        super().close()
        self._built.stop()


def serve(
    folders: Source | Sequence[Source] = (),
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    names: Sequence[str] = (),
    framed: bool = True,
    browser: bool = False,
    review: bool = False,
) -> Explorer:
    """Show datasets, testbeds, runs, trainings and studies in the browser, live.

    Nothing is written but an index and thumbnails in the cache, and nothing is shown but what lies under the folders
    and the datasets that Longshot remembers.

    Parameters
    ----------
    folders : path, URL of a run, Results, or list of those
        Where to look for runs, testbeds, trainings, studies, suites and releases; the current folder unless
        given. Links that lead out of a folder are not followed. A run at a URL is shown as it is at the start.
    host : str
        Address to listen on; others need ``token``. Any but this machine's own does.
    port : int, 1 to 65535
        Port, or the next free one.
    token : str, optional
        Secret that readers need: they open …/?token=TOKEN once. It has 12 characters at least.
    names : NAME, list of str
        Further name that browsers reach it by, behind a proxy. Such as ``explorer.example.org``, where a proxy
        with TLS stands before it.
    framed : bool
        Whether pages of this machine, such as a notebook, may show it in a frame.
    browser : bool
        Also open the page in this machine's browser.
    review : bool
        Let readers keep or drop doubtful images, as ``longshot datasets review`` does, and forget datasets. Nothing
        else is ever written.

    Returns
    -------
    Explorer
        ``url`` is the address, ``close()`` ends it, ``wait()`` lets it run. A notebook shows it in a frame.

    Examples
    --------
    >>> explorer = serve("runs", port=8420)
    >>> explorer.url.startswith("http://127.0.0.1:84")
    True
    >>> explorer.close()
    """
    try:
        import uvicorn

        from longshot.explorer.app import build_app
    except ModuleNotFoundError as error:
        raise UserError(
            f"The explorer needs {error.name}, which is not installed", "pip install 'longshot[serve]'"
        ) from error
    single = isinstance(folders, str | os.PathLike) or hasattr(folders, "store")
    sources: list[Any] = [folders] if single else list(folders)  # type: ignore[arg-type]
    roots, held = _roots(sources or ["."])
    local = is_loopback(host)
    if not local and token is None:
        raise UserError(
            f"{{host:{host}}} lets other machines in, and what they see is your data",
            "give {token:TEXT} as well, 12 characters at least, and put a proxy with TLS before it "
            "(docs/howto/explorer.md)",
        )
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise UserError(
            f"{{token}} has {len(token)} characters and needs {_SHORTEST_TOKEN}",
            "take a longer one, as from 'openssl rand -hex 16'",
        )
    listening = listen(host, port)
    bound = int(listening.getsockname()[1])
    built = build_app(
        roots, own_hosts(host, bound, names), token=token, framed=framed, any_address=not local, review=review
    )
    config = uvicorn.Config(
        built.app,
        **QUIET,
        timeout_keep_alive=5,
    )
    server = uvicorn.Server(config)

    def run() -> None:
        with contextlib.closing(listening), contextlib.ExitStack() as stack:
            for folder in held:
                stack.callback(folder.cleanup)
            server.run(sockets=[listening])

    thread = threading.Thread(target=run, name="longshot-explorer", daemon=True)
    thread.start()
    explorer = Explorer(
        f"http://{in_url(host)}:{bound}/" + (f"?token={token}" if token else ""), server, thread, built
    )
    if browser:
        import webbrowser

        webbrowser.open(explorer.url)
    return explorer


_shared: list[Explorer] = []  # what ``show`` opened in this process
_shown: list[TemporaryDirectory[str]] = []  # what it wrote; removed when the process ends


def show(noun: Any, task: int | None = None) -> Explorer:
    """Show a testbed, one of its tasks, or results, in an explorer that this process shares.

    Parameters
    ----------
    noun : Testbed or Results
        What to show; what is held in memory is written to a temporary folder.
    task : int, optional
        A task of the testbed.
    """
    if hasattr(noun, "store"):
        roots, held = _roots([noun])
        _shown.extend(held)
        root = roots[0]
    else:
        _shown.append(TemporaryDirectory(prefix="longshot-testbed-"))
        root = Path(_shown[-1].name).resolve()
        noun.save(root / f"{noun.name or 'testbed'}.parquet")
    if not _shared or not _shared[0].running:
        _shared[:] = [serve(root)]
    explorer = _shared[0]
    items = explorer.add(root)
    if hasattr(noun, "store"):
        item = next(each for each in items if each.kind == "run" and each.path == root)
    else:
        item = next(each for each in items if each.facts.get("hash") == noun.content_hash)
    return explorer.at(item.url.lstrip("/") + ("" if task is None else f"/task/{task}"))


def _roots(sources: Sequence[Any]) -> tuple[list[Path], list[TemporaryDirectory[str]]]:
    """List the folders to look in, and the temporary ones among them, made for results held in memory."""
    roots: list[Path] = []
    held: list[TemporaryDirectory[str]] = []
    for source in sources:
        if is_url(source):
            from longshot.evaluation import Results

            source = Results(source)
        if not hasattr(source, "store"):
            path = Path(source)
            if not path.exists():
                raise UserError(f"There is no folder {path}", "name one that is there")
            roots.append(path.resolve())
        elif source.store.path is not None:
            roots.append(Path(source.store.path).resolve())
        else:
            from longshot.evaluation import write_folder

            held.append(TemporaryDirectory(prefix="longshot-results-"))
            roots.append(Path(write_folder(source.store, Path(held[-1].name) / "results")).resolve())
    return roots, held


@click.command(short_help="Open every task, mistake and run in the browser.")
@click.argument("folders", nargs=-1, type=PLACE)
@verb_options("serve", without="framed")
def serve_command(folders: tuple[str, ...], **settings: Any) -> None:
    """Show what lies under FOLDERS (the current one unless given) and the remembered datasets, live, until Ctrl-C.

    \b
    Example:
      longshot demo
      longshot serve longshot-demo
    """
    import longshot

    explorer = longshot.serve(folders, framed=False, **settings)
    click.echo(f"Longshot explorer at {explorer.url}  (Ctrl-C ends it)")
    explorer.wait()
