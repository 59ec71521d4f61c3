"""The program inside a box: it has the libraries, and forks a process into a room of its own whenever one is asked for.

    python -m inside.zygote CONTROL

CONTROL is the descriptor of the organiser's socket, over which a JSON object comes first: where things are, the limits
of a room, or none where a submission is trusted. Nothing of the submission runs in this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from pathlib import Path

from . import rooms, spawn

_SUBREAPER = 36  # of prctl


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    settings = json.loads(control.recv(1 << 20))
    submission, data = Path(settings["submission"]), Path(settings["data"])
    starter: spawn.Starter
    try:
        if settings["room"] is None:
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # orphans are its children, and so are found
            trained, starter = Path(settings["trained"]), spawn.Forks(Path(settings["work"]))
        else:
            calls = bytes.fromhex(settings["room"].pop("calls"))
            trained, starter = rooms.TRAINED, rooms.Rooms(rooms.RoomLimits(**settings["room"], calls=calls))
    except (rooms.NoRoom, OSError) as error:
        control.send(f"no room: {error}".encode())
        return
    spawn.serve(control, starter, _work(submission, data, trained, settings["from_nothing"]))


def _work(submission: Path, data: Path, trained: Path, from_nothing: bool) -> spawn.Work:
    from . import host  # torch: after the process has become the one that forks

    spawn.import_libraries(submission)

    def work(trains: bool, descriptors: tuple[int, ...]) -> int:
        incoming, outgoing, printed = descriptors
        os.close(printed)  # it is where the standard streams lead
        return host.live(submission, data, trained, incoming, outgoing, from_nothing=from_nothing)

    return work


if __name__ == "__main__":
    main()
