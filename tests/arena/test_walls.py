"""What the walls are made of, without building them: sizes, names and endings."""

from __future__ import annotations

import errno
import os
import socket
import struct
from pathlib import Path

import pytest

from longshot.arena import box, sandbox
from longshot.arena.settings import RunLimits


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exit code 0"),
        (7, "exit code 7"),
        (128, "exit code 128"),
        (129, "ended by signal 1, SIGHUP"),
        (137, "ended by signal 9, SIGKILL"),
        (-9, "ended by signal 9, SIGKILL"),
        (255, "ended by signal 127, unknown"),
    ],
)
def test_how_a_process_ended(code, words):
    assert box._ending(code) == words


@pytest.mark.parametrize(("disk", "share"), [(30_000, "10000"), (12_287, "4096"), (12_291, "4097")])
def test_three_folders_share_what_may_be_written(disk, share):
    words = sandbox._scratch("/tmp", RunLimits(disk=disk))
    assert words == ["--size", share, "--perms", "1777", "--tmpfs", "/tmp"]


def test_folders_above_a_bound_path_are_made_but_for_tmp():
    def made(path: str) -> list[str]:
        return sandbox._parents(Path(path))[3::4]

    assert made("/a/b/c") == ["/a", "/a/b"]
    assert made("/tmp/x/y") == ["/tmp/x"]
    assert made("/a") == []


def test_a_slot_is_held_by_one_at_a_time(monkeypatch):
    monkeypatch.setattr(sandbox, "FIRST_USER", 40_000 + os.getpid() % 10_000)
    monkeypatch.setattr(sandbox, "USERS", 2)
    with sandbox.free_slot() as first, sandbox.free_slot() as second:
        assert {first, second} == {0, 1}
        with (
            pytest.raises(sandbox.UserError, match="All 2 users of the sandbox are taken; run fewer workers"),
            sandbox.free_slot(),
        ):
            pass
    with sandbox.free_slot() as again:
        assert again in (0, 1)


def steps(machine: str) -> list[tuple[int, int, int, int]]:
    code = sandbox.program(machine)
    assert code is not None
    return list(struct.iter_unpack("=HBBI", code))


def follow(
    machine: str, number: int, argument: int = 0, kernel: int | None = None, second: int = 0, third: int = 0
) -> int:
    """What the kernel answers to a system call: the filter's instructions, carried out."""
    name = kernel or sandbox.MACHINES[machine][1]
    data = {0: number, 4: name, 16: argument, 24: second, 32: third}
    program, position, value = steps(machine), 0, 0
    while True:
        code, if_true, if_false, operand = program[position]
        position += 1
        if code == 0x20:
            value = data[operand]
        elif code == 0x06:
            return operand
        else:
            hit = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            position += if_true if hit else if_false


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_answers_as_it_should(machine):
    allow, missing, forbidden = 0x7FFF0000, 0x00050000 | errno.ENOSYS, 0x00050000 | errno.EPERM
    column = sandbox.MACHINES[machine][0]
    for name, numbers in sandbox.CALLS.items():
        assert follow(machine, numbers[column]) == missing, name
    clone = sandbox.CLONE[column]
    assert follow(machine, clone) == allow
    for flag in (
        0x00001000,
        0x00020000,
        0x02000000,
        0x04000000,
        0x08000000,
        0x10000000,
        0x20000000,
        0x40000000,
    ):
        assert follow(machine, clone, flag) == forbidden, hex(flag)
    assert follow(machine, clone, 0x003D0F00) == allow  # a thread's flags
    getsockopt, madvise, fcntl = [numbers[column] for numbers in ((55, 209), (28, 233), (72, 25))]
    assert [follow(machine, getsockopt, third=third) for third in (4, 57, 77)] == [allow, missing, missing]
    assert [follow(machine, madvise, third=third) for third in (4, 25)] == [
        allow,
        missing,
    ]  # joins pages of files
    hints = [follow(machine, fcntl, second=second) for second in (2, 1024, 1035, 1036, 1037, 1038)]
    assert hints == [allow, allow, allow, missing, allow, missing]
    assert follow(machine, {"x86_64": 0, "aarch64": 63}[machine], 0x10000000) == allow  # read
    assert follow(machine, 1, kernel=3) == 0x80000000  # another processor's calls end the process
    if machine == "x86_64":
        assert follow(machine, 0x40000000) == missing
    assert sandbox.program("riscv64") is None


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_only_three_families_of_sockets_exist(machine):
    allow, refused = 0x7FFF0000, 0x00050000 | errno.EAFNOSUPPORT
    column = sandbox.MACHINES[machine][0]
    families = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6}
    for numbers in ((41, 198), (53, 199)):  # socket, socketpair
        answers = {family: follow(machine, numbers[column], family) for family in range(256)}
        assert {family for family, answer in answers.items() if answer == allow} == families
        assert {answer for family, answer in answers.items() if family not in families} == {refused}
