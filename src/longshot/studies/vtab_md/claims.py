"""What the paper VTAB+MD claims, as data, and how a claim is measured: rows minus rows on the same tasks.

A claim is tested where a comparison of the study holds its rows; see :mod:`.comparisons`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Literal, TypeAlias

from longshot.base import Floats
from longshot.studies.engine.claims import Claim, Measured, NotMeasured, of_sources, some
from longshot.studies.vtab_md.comparisons import vtab_comparisons
from longshot.studies.vtab_md.measured import scores_of
from longshot.studies.vtab_md.paper import PRINTED_TITLES, printed_difference
from longshot.studies.vtab_md.plan import VtabLab
from longshot.studies.vtab_md.scores import PARTS, VtabScores
from longshot.studies.vtab_md.settings import VtabSettings

Pair: TypeAlias = tuple[str, str]  # the first row minus the second
EACH = "each source of episodes"
_BITS = ("BiT", "BiT-ResNet-18")
_META, _META_ALL = ("ProtoMAML", "ProtoNets", "CTX"), ("ProtoMAML (all)", "ProtoNets (all)", "SUR")
_COMPETITIVE = 0.05  # what counts as competitive where the paper gives no number
_CAPACITY = (("BiT-24 (20×20)", "BiT-8 (20×20)"), ("BiT-24 (40×40)", "BiT-8 (40×40)"))
_RESOLUTION = (("BiT-8 (40×40)", "BiT-8 (20×20)"), ("BiT-24 (40×40)", "BiT-24 (20×20)"))


@dataclass(frozen=True)
class Statement:
    """A claim as data: pairs of rows, and what they are compared on: aggregates, sources, or every one of them."""

    id: str
    sentence: str
    where: str
    pairs: tuple[Pair, ...]
    on: tuple[str, ...]
    expects: Literal["above", "below", "same"] = "above"
    margin: float = 0.0
    words: str = ""  # what was printed, where it is more than a difference of two printed numbers
    printed: float | tuple[float, float] | None = None  # for sources that the paper does not have
    apart: tuple[str, ...] = ()  # sources that the paper excepts


def _all_pairs(first: Sequence[str], second: Sequence[str]) -> tuple[Pair, ...]:
    return tuple(product(first, second))


STATEMENTS = (
    Statement(
        "transfer-on-vtab",
        "Meta-learners struggle to compete with transfer learners on VTAB-v2",
        "section 4.1, figure 1, tables 4 and 5",
        (
            *_all_pairs(("MD-Transfer", *_BITS), _META),
            *_all_pairs(("MD-Transfer (all)",), _META_ALL),
        ),
        ("all",),
    ),
    Statement(
        "ctx-natural",
        "CTX is above MD-Transfer on VTAB-v2's natural tasks, as the exception among meta-learners",
        "section 4.1, figure 1, table 4",
        (("CTX", "MD-Transfer"),),
        ("natural",),
    ),
    Statement(
        "champions-on-md",
        "With small networks CTX and SUR achieve the best performance on MD-v2",
        "section 4.2, figure 1, tables 4 and 5",
        (
            *_all_pairs(("CTX",), ("MD-Transfer", *_BITS, "ProtoMAML", "ProtoNets")),
            *_all_pairs(("SUR",), ("MD-Transfer (all)", "ProtoMAML (all)", "ProtoNets (all)")),
        ),
        ("md",),
    ),
    Statement(
        "profiles-md",
        "Two transfer learners of one size have other profiles: BiT is below MD-Transfer on Omniglot, Aircraft and "
        "Traffic Sign",
        "section 4.2, figure 2, table 4",
        _all_pairs(_BITS, ("MD-Transfer",)),
        ("omniglot", "aircraft", "traffic_sign"),
        expects="below",
    ),
    Statement(
        "profiles-vtab",
        "On VTAB-v2 the same BiT is above MD-Transfer",
        "section 4.2, figure 2, table 4",
        _all_pairs(_BITS, ("MD-Transfer",)),
        ("all",),
    ),
    Statement(
        "protomaml-specialized",
        "ProtoMAML is competitive with transfer learning on the specialized tasks",
        "section 4.1, figure 1, table 4",
        (("ProtoMAML", "MD-Transfer"),),
        ("specialized",),
        expects="same",
        margin=_COMPETITIVE,
        words="“competitive”; within 5 points is what counts as that here",
    ),
    Statement(
        "protomaml-others",
        "On the natural and structured tasks ProtoMAML is behind transfer learning",
        "section 4.1, figure 1, table 4",
        (("ProtoMAML", "MD-Transfer"),),
        ("natural", "structured"),
        expects="below",
    ),
    Statement(
        "more-sources",
        "MD-Transfer benefits from training on all sources of MD-v2",
        "section 4.2, tables 4 and 5",
        (("MD-Transfer (all)", "MD-Transfer"),),
        ("md",),
    ),
    Statement(
        "normalisation",
        "Batch normalisation in place of group normalisation and weight standardisation (GNWS) degrades BiT on all "
        "sources of MD-v2",
        "section 4.2, figure 6, table 7",
        (("BiT (GNWS)", "BiT (BN)"),),
        ("md", EACH),
    ),
    Statement(
        "scale",
        "A higher resolution and a larger network help on MD-v2",
        "section 4.2, figure 3, table 6",
        (*_RESOLUTION, *_CAPACITY),
        ("md",),
    ),
    Statement(
        "scale-omniglot",
        "On Omniglot larger networks perform worse",
        "section 4.2, figure 3, table 6",
        _CAPACITY,
        ("omniglot",),
        expects="below",
    ),
    Statement(
        "related-classes",
        "Upstream classes related to a test source matter for it: without them its accuracy drops",
        "section 4.2, figure 5, table 9",
        (("BiT (all upstream classes)", "BiT (class-ablated)"),),
        (EACH,),
        words="a drastic impact on Aircraft (14.0 points) and Birds (13.3)",
        printed=(0.1328, 0.1404),
    ),
    Statement(
        "swap-protomaml",
        "ProtoMAML gets better with MD-Transfer's evaluation settings: more steps at another rate",
        "appendix C, figure 8",
        (("ProtoMAML (MD-Transfer hypers)", "ProtoMAML"),),
        ("md", "all"),
    ),
    Statement(
        "swap-head",
        "A linear head in place of a cosine one harms MD-Transfer on all datasets except QuickDraw",
        "appendix C, figure 8",
        (("MD-Transfer", "MD-Transfer (linear head)"),),
        (EACH,),
        words="a drop of 10 points on Traffic Sign",
        apart=("quickdraw",),
    ),
    Statement(
        "larger-sur-vtab",
        "Larger networks and pictures improve SUR on VTAB-v2",
        "section 4.1, appendix D, figure 9",
        (("SUR (larger)", "SUR (small)"),),
        ("all",),
        words="an appreciable 5 %",
        printed=0.05,
    ),
    Statement(
        "larger-sur-md",
        "Larger networks and pictures hardly improve SUR on MD-v2",
        "section 4.1, appendix D, figure 9",
        (("SUR (larger)", "SUR (small)"),),
        ("md",),
        expects="same",
        margin=0.01,
        words="a marginal improvement, below 1 %",
    ),
)


def vtab_claims(settings: VtabSettings) -> list[Claim[VtabLab]]:
    """The claims whose rows a comparison of these settings sets against each other; other pairs are left out."""
    compared = {
        (first.label, second.label): comparison.factor
        for comparison in vtab_comparisons(settings)
        for first, second in product(comparison.sides, repeat=2)
    }
    claims = []
    for statement in STATEMENTS:
        pairs = tuple(pair for pair in statement.pairs if pair in compared)
        if pairs:
            same = {
                name: getattr(statement, name) for name in ("id", "sentence", "where", "expects", "margin")
            }
            measure = partial(_measure, replace(statement, pairs=pairs))
            claims.append(Claim(**same, measure=measure, printed=statement.words, factor=compared[pairs[0]]))
    return claims


def _measure(statement: Statement, lab: VtabLab) -> Sequence[Measured]:
    """A number for every pair of rows and everything they are compared on."""
    scores = scores_of(lab)
    rows = {row.name for row in scores.rows}
    pairs = [pair for pair in statement.pairs if rows.issuperset(pair)]
    if not pairs:
        raise NotMeasured("the rows that it is about were left out")
    numbers = [
        number
        for pair in pairs
        for label, on, sources in _places(statement, scores)
        if (number := _number(statement, scores, pair, label, on, sources)) is not None
    ]
    titles = ", ".join(PRINTED_TITLES.get(on, on) for on in statement.on)
    return some(numbers, f"none of the data that it is about is here: {titles}")


def _places(statement: Statement, scores: VtabScores) -> list[tuple[str, str, tuple[str, ...]]]:
    """(words, key of the paper's tables, sources) of everything that is compared on."""
    parts = {part.key: part for part in scores.parts()}
    places: list[tuple[str, str, tuple[str, ...]]] = []
    for on in statement.on:
        if on == EACH:
            listed = [source for source in scores.sources if source.role == "md"]
            places += [(s.title, s.name, (s.name,)) for s in listed if s.name not in statement.apart]
        elif on in PARTS:
            places += [(parts[on].title, on, parts[on].sources)] if on in parts else []
        else:
            here = [source for source in scores.sources if source.name == on and source.official]
            places += [(source.title, on, (on,)) for source in here]
    return places


def _number(
    statement: Statement, scores: VtabScores, pair: Pair, label: str, on: str, sources: Sequence[str]
) -> Measured | None:
    """The first row minus the second, the mean over sources; None where a row lacks one of them."""
    differences: list[Floats] = []
    for source in sources:
        difference = scores.paired(*pair, source)
        if difference is None:
            return None
        differences.append(difference)
    printed = printed_difference(*pair, on)
    return of_sources(
        f"{pair[0]} − {pair[1]}, {label}", differences, statement.printed if printed is None else printed
    )
