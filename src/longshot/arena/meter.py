"""What a process and all that come from it use, read from /proc."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

FORGET = 20  # looks after which all processes of the machine are looked at again
TICK = os.sysconf("SC_CLK_TCK")


class Meter:
    """What a process and all its descendants use.

    Processes once seen outside the family are passed over for a while, so that a look costs little on a machine with
    many: nobody is adopted into a family, only a number may be given again to a new member.
    """

    def __init__(self, pid: int) -> None:
        self.pid = str(pid)
        self._strangers: set[str] = set()
        self._looks = 0

    def look(self, enough: int = 0) -> tuple[int, float]:
        """Bytes of memory and seconds of processor time, those of ended children included.

        Pages of files are not counted: the same library in ten processes is in memory once. Memory that processes
        share is first counted for each of them, which is quick and never too little; where that exceeds ``enough`` it
        is divided among those that share it, which is exact.
        """
        family, spent = self._usage()
        memory = {pid: _bytes(pid, "status", ("RssAnon", "RssShmem"), 0) for pid in family}
        if sum(memory.values()) > enough:
            memory = {
                pid: _bytes(pid, "smaps_rollup", ("Pss_Anon", "Pss_Shmem"), held)
                for pid, held in memory.items()
            }
        return sum(memory.values()), spent

    def family(self) -> list[str]:
        """The process and all its descendants."""
        return self._usage()[0]

    def _usage(self) -> tuple[list[str], float]:
        """The processes, and the seconds they and their ended children used."""
        if self._looks % FORGET == 0:
            self._strangers.clear()
        self._looks += 1
        children: dict[str, list[str]] = {}
        spent: dict[str, float] = {}
        looked_at = {name for name in os.listdir("/proc") if name.isdigit()} - self._strangers  # noqa: PTH208
        for name in looked_at:
            with contextlib.suppress(OSError, IndexError):  # it may end while it is looked at
                stat = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                children.setdefault(stat[1], []).append(name)
                spent[name] = sum(map(int, stat[11:15])) / TICK
        family = [self.pid]
        for pid in family:  # which grows while it is walked through
            family += children.get(pid, [])
        self._strangers |= looked_at.difference(family)
        return family, sum(spent.get(pid, 0.0) for pid in family)


def _bytes(pid: str, file: str, names: tuple[str, ...], unknown: int) -> int:
    """The sum of the named lines of a process's file, 0 when it has ended, ``unknown`` when it may not be read."""
    try:
        lines = (line.partition(":") for line in Path("/proc", pid, file).read_text().splitlines())
        sizes = [int(value.split()[0]) << 10 for name, _, value in lines if name in names]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except OSError:
        return unknown
    return sum(sizes) if sizes else unknown
