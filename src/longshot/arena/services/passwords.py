"""Passwords: kept as scrypt hashes with a salt of their own, compared in the same time whoever asks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import threading

from longshot.base import UserError

# Memory 32 MB, some 0.2 s: as strong as OWASP's first choice for scrypt. A hash names its own numbers.
COST, BLOCK, PARALLEL = 1 << 15, 8, 3
SHORTEST, LONGEST = 10, 200  # letters
_MEMORY = 1 << 27


def check_password(password: str) -> None:
    """UserError for a password that is too short, or one letter throughout."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise UserError(f"A password has {SHORTEST} to {LONGEST} letters, this one has {len(password)}.")
    if len(set(password)) < 4:
        raise UserError(f"The password has {len(set(password))} different letters, and 4 are needed.")


def hash_password(password: str) -> str:
    """What is kept of a password: ``scrypt$n$r$p$salt$hash``."""
    salt = os.urandom(16)
    return _written(COST, BLOCK, PARALLEL, salt, _scrypt(password, salt, COST, BLOCK, PARALLEL))


def fits(password: str, kept_hash: str | None, gate: threading.BoundedSemaphore) -> bool:
    """Whether a password is the one that was hashed; without a hash the same work is done for nothing."""
    with gate:
        if kept_hash is None:
            _scrypt(password, b"0" * 16, COST, BLOCK, PARALLEL)
            return False
        _, cost, block, parallel, salt, digest = kept_hash.split("$")
        computed = _scrypt(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
        return hmac.compare_digest(computed, base64.b64decode(digest))


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    secret = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=cost, r=block, p=parallel, maxmem=_MEMORY, dklen=32)


def _written(cost: int, block: int, parallel: int, salt: bytes, digest: bytes) -> str:
    parts = base64.b64encode(salt).decode(), base64.b64encode(digest).decode()
    return f"scrypt${cost}${block}${parallel}${parts[0]}${parts[1]}"
