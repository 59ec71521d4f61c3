"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from longshot.base import UserError, atomic, cache_dir, canonical_json, hash_file, hash_text, write_json


def test_atomic_keeps_the_former_file_when_the_block_fails(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("former")
    with pytest.raises(RuntimeError), atomic(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "former"
    assert list(tmp_path.iterdir()) == [target]


def test_atomic_files_follow_the_umask(tmp_path: Path) -> None:
    code = "import os,sys; os.umask(0o027); from longshot.base.files import write_text; write_text(sys.argv[1], 'x')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=True)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_full_disk_is_one_sentence_that_names_the_file(tmp_path: Path) -> None:
    sentence = r"disk is full while writing .*a\.json.*LONGSHOT_CACHE"
    with pytest.raises(UserError, match=sentence), atomic(tmp_path / "a.json"):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", ["file/a.json", "folder", "n" * 300])
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"Cannot write .*choose a place you may write to\.$"):
        write_json(tmp_path / name, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_forbidden_place_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="Cannot write"):
        write_json(tmp_path / "a.json", {})


def test_json_is_readable_and_sorted(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": 1, "a": "ü"})
    text = (tmp_path / "a.json").read_text("utf-8")
    assert json.loads(text) == {"a": "ü", "b": 1}
    assert text.index('"a"') < text.index('"b"') and "ü" in text


def test_hashes_separate_their_parts() -> None:
    assert hash_text("ab", "c") != hash_text("a", "bc")
    assert canonical_json({"b": 1, "a": [1.5]}) == '{"a":[1.5],"b":1}'


def test_file_hash_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert hash_file(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_cache_moves_with_the_environment(fresh_cache: Path) -> None:
    assert cache_dir("features") == fresh_cache / "features"
    assert (fresh_cache / "features").is_dir()
