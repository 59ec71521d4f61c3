"""Templates compiled once, kept in the package's own ``__pycache__`` as Python keeps its modules there.

Whoever can write to that folder can change the package itself, so what lies in it is trusted as the package is. Where
it cannot be written, templates are compiled each time.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import sys
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, BytecodeCache

from longshot.base import UserError, atomic

_SEAL = 64  # characters before the code


class CompiledTemplates(BytecodeCache):
    """Compiled templates as files of a folder; one of another text, Python or Jinja, or damaged, is made anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket where a file fits it."""
        try:
            content = self._path(bucket).read_bytes()
        except OSError:
            return
        code = content[_SEAL:]
        if content[:_SEAL] == _seal(bucket, code):
            bucket.code = marshal.loads(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled, unless Python keeps nothing either or the folder cannot be written."""
        if sys.dont_write_bytecode or bucket.code is None:
            return
        code = marshal.dumps(bucket.code)
        with contextlib.suppress(OSError, UserError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic(self._path(bucket)) as temporary:
                temporary.write_bytes(_seal(bucket, code) + code)

    def _path(self, bucket: Bucket) -> Path:
        return self.folder / f"{bucket.key}.{sys.implementation.cache_tag}.template"


def _seal(bucket: Bucket, code: bytes) -> bytes:
    """What the file must begin with: a digest over the code, the template's text and what compiled it."""
    versions = f"{jinja2.__version__} {sys.version} {bucket.checksum}"
    return hashlib.sha256(versions.encode() + code).hexdigest().encode()
