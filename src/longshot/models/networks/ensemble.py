"""Several networks side by side as one: weighted unit vectors, so that distances are weighted sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longshot.base import UserError, check_count
from longshot.models.networks.base import Network

_MEMBERS = 3


class Ensemble(Network):
    """[√w₁ v₁/‖v₁‖, √w₂ v₂/‖v₂‖, …]: two images differ by Σ_m w_m · (squared distance of member m's unit vectors).

    ``of``: the call of a network, ``members`` of which (3) start from different random weights, or a list of calls;
    ``build_member(call, size)`` makes each. The weights w [M] sum to 1 and are equal until something is known of the
    members.
    """

    weights: Tensor

    def __init__(
        self,
        *,
        size: tuple[int, int],
        build_member: Callable[[str, tuple[int, int]], Network],
        of: str | Sequence[str] = "cnn4",
        members: int | None = None,
    ) -> None:
        super().__init__()
        if members is not None:
            check_count("ensemble", "members", members, least=1)
        calls = [of] * (_MEMBERS if members is None else members) if isinstance(of, str) else list(of)
        if not calls or (members is not None and members != len(calls)):
            raise UserError(
                f"An ensemble of {len(calls)} networks is named with members={members}; leave members out, or name one "
                f"network as of='cnn4'."
            )
        self.members = nn.ModuleList(build_member(call, size) for call in calls)
        self.dims = [member.dim for member in self.each()]
        self.dim = sum(self.dims)
        self.register_buffer("weights", torch.full((len(calls),), 1 / len(calls)))

    def each(self) -> list[Network]:
        """The members."""
        return [cast(Network, member) for member in self.members]

    def facts(self) -> dict[str, object]:
        """The members with their weights."""
        pairs = zip(self.each(), self.weights.tolist(), strict=True)
        return {"members": [{"network": member.call, "weight": weight} for member, weight in pairs]}

    def maps(self, images: Tensor) -> Tensor:
        """Members' maps differ in size and meaning: there is no common one."""
        raise UserError(
            f"The network '{self.call}' is an ensemble and has no map of its own; take a single network."
        )

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → [B, d₁ + d₂ + …]."""
        units = [F.normalize(member(images), dim=1) for member in self.each()]
        return torch.cat([unit * weight.sqrt() for unit, weight in zip(units, self.weights, strict=True)], 1)
