"""A decoding process: reads row ranges from its input, writes bytes to its output, ends with its input."""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress


def main() -> None:
    """Serve until the parent closes the pipe or is gone."""
    source = sys.stdin.buffer
    # Answers go to a private copy of stdout; whatever a library prints must not end up between them.
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    from longshot.base import parse
    from longshot.models.features.decode import decode_rows, receive, send

    path = receive(source)
    if path is None:
        return
    sys.path[:] = pickle.loads(path)  # so that a store of the user's own class is found
    start = receive(source)
    if start is None:
        return
    store, text = pickle.loads(start)
    transform = parse(text)
    while (request := receive(source)) is not None:
        decoded = decode_rows(store, transform, pickle.loads(request))
        send(sink, pickle.dumps((decoded.pixels.shape, decoded.bad)))
        sink.write(decoded.pixels.data)
        sink.flush()


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        main()
    os._exit(0)  # pipes may be broken: no flush at exit, no message
