"""How much harder the chosen supports are: for the judges, and for networks that took no part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import Field

from longshot.base import Loose, read_record
from longshot.tasks.origin import sampler_parts

if TYPE_CHECKING:
    from longshot.base import Floats
    from longshot.tasks.judges import Judge

Part: TypeAlias = Literal["judge", "held out"]


class Share(Loose):
    """A mean accuracy, or a difference of two, with half its 95 % interval over tasks (none for a single task)."""

    mean: float
    half: float | None = None

    def text(self, *, signed: bool = False) -> str:
        """``62.0 ± 1.5`` in per cent."""
        number = f"{100 * self.mean:{'+' if signed else ''}.1f}"
        return number if self.half is None else f"{number} ± {100 * self.half:.1f}"


class NetworkDrop(Loose):
    """A network's accuracy on uniform and on chosen supports of the same queries; of filtered tasks: on all and on the
    chosen ones."""

    part: Part
    backbone: str = Field(min_length=1)
    method: str
    uniform: Share
    chosen: Share
    drop: Share

    @property
    def name(self) -> str:
        """``pixels:ridge``; without the method where it is protonet."""
        return self.backbone if self.method == "protonet" else f"{self.backbone}:{self.method}"

    def texts(self) -> tuple[str, str, str, str, str]:
        """Network, part, and the three numbers."""
        return self.name, self.part, self.uniform.text(), self.chosen.text(), self.drop.text(signed=True)


HEADS = ("network", "part", "uniform", "chosen", "drop")
CAPTION = "accuracy in %, mean over tasks ± half its 95 % interval; drop: uniform less chosen"


def paired_drop(part: Part, network: Judge, uniform: Floats, chosen: Floats) -> dict[str, Any]:
    """The record of a network on two supports of the same tasks, both [T]."""
    return _record(part, network, _share(uniform), _share(chosen), _share(uniform - chosen))


def unpaired_drop(part: Part, network: Judge, every: Floats, chosen: Floats) -> dict[str, Any]:
    """The record of a network on other tasks, [A], and on the chosen ones [T]; the interval is Welch's."""
    import math

    first, second = _share(every), _share(chosen)
    half = None
    if first.half is not None and second.half is not None:
        half = math.hypot(first.half, second.half)
    return _record(part, network, first, second, Share(mean=first.mean - second.mean, half=half))


def recorded_drops(sampler: Mapping[str, Any]) -> list[list[NetworkDrop]]:
    """The drops of each draw that was joined into a testbed; an empty list for one without judges."""
    return [
        [read_record(NetworkDrop, record, "a recorded drop") for record in part.get("drops", ())]
        for part in sampler_parts(sampler)
    ]


def say_drops(sampler: Mapping[str, Any], datasets: Sequence[str]) -> list[str]:
    """A table as lines of text, judges beside held-out networks; no line where nothing was judged."""
    lines: list[str] = []
    for number, drops in enumerate(recorded_drops(sampler)):
        if not drops:
            continue
        several = "" if len(sampler_parts(sampler)) == 1 else f" {_draw_name(datasets, number)}"
        rows = [HEADS, *(drop.texts() for drop in drops)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
        lines.append(f"difficulty{several}: {CAPTION}")
        lines += [
            "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        if not any(drop.part == "held out" for drop in drops):
            lines.append("  for the judges alone: nobody was held out")
    return lines


def _draw_name(datasets: Sequence[str], number: int) -> str:
    return f"of {datasets[number]}" if number < len(datasets) else f"of draw {number + 1}"


def _share(values: Floats) -> Share:
    from longshot.statistics import mean_interval

    interval = mean_interval(values)
    return Share(mean=interval.mean, half=interval.half)


def _record(part: Part, network: Judge, uniform: Share, chosen: Share, drop: Share) -> dict[str, Any]:
    numbers = {"uniform": uniform, "chosen": chosen, "drop": drop}
    return {
        "part": part,
        "backbone": network.features.backbone,
        "method": network.method,
        **{name: {key: _rounded(value) for key, value in share} for name, share in numbers.items()},
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
