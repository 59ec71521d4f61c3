"""What a competition server does not do, as sentences with the status that HTTP gives them."""

from __future__ import annotations

from longshot.base import UserError


class Refusal(UserError):
    """A request that is not carried out; ``status`` is HTTP's number for the kind of reason.

    Parameters
    ----------
    status : int
        401 unknown, 403 not allowed, 404 not there, 409 not now, 413 too large, 429 too often, 503 not at the moment.
    fact, remedy : str
        As of :class:`UserError`.
    retry : float
        Seconds after which it may be asked again; 0 where that would not help.
    """

    def __init__(self, status: int, fact: str, remedy: str = "", *, retry: float = 0.0) -> None:
        super().__init__(fact, remedy)
        self.status, self.retry = status, retry


def not_there(kind: str, name: object) -> Refusal:
    """There is none, or it is somebody else's: nobody learns which."""
    return Refusal(404, f"There is no {kind} {name} here.")
