"""The recipe ``vtab-md``: transfer and meta-learning on Meta-Dataset's episodes and VTAB's tasks in one protocol.

Sources are named datasets, as many as there are; networks are trained where the study says so; every row is a backbone
with a method for episodes and candidates for big episodes, of which one is chosen on validation images for all tasks.

The claims of the paper are data: rows minus rows on the same tasks. A claim is tested where a comparison of the study
holds its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from longshot.base import Floats, UserError
from longshot.studies.engine.claims import Claim, Measured, NotMeasured, of_sources, some
from longshot.studies.engine.recipe import GivenDataset, Recipe, check_names, read_given
from longshot.studies.vtab_md.vtab_md_networks import unequal_budgets, vtab_comparisons
from longshot.studies.vtab_md.vtab_md_plan import (
    VtabLab,
    VtabPlan,
    make_vtab_plan,
    plan_of,
    shuffled_draw,
    shuffled_name,
)
from longshot.studies.vtab_md.vtab_md_scores import (
    CONSTANT,
    PARTS,
    VtabScores,
    big_method,
    choices_of,
    floor_notes,
    supportless,
    unbalanced,
    vtab_scores,
)
from longshot.studies.vtab_md.vtab_md_sources import (
    GROUPS,
    TITLES,
    StudySource,
    VtabSettings,
    cut_dataset,
    open_sources,
)
from longshot.studies.vtab_md.vtab_md_tables import PRINTED_TITLES, printed_difference

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.studies.engine.claims import Claim
    from longshot.studies.engine.comparisons import Comparison
    from longshot.studies.engine.study_page import Drawings
    from longshot.studies.engine.study_tables import TableFile


class VtabMd(Recipe[VtabSettings, Sequence[StudySource]]):
    """Transfer and meta-learning side by side."""

    settings = VtabSettings
    question = (
        "Transfer learning and meta-learning both learn from few images, but each is measured on a benchmark of its "
        "own. How do they compare on both, episodes of a few images per class and tasks of a thousand, and what do "
        "normalisation, scale, upstream data and evaluation settings have to do with it?"
    )
    # What decides the testbeds; sources, networks and rows may be added to a folder later.
    binding = (
        *("cut", "tasks", "split", "max_way", "max_query", "max_support"),
        *("support", "train", "validation", "query", "block", "seed"),
    )

    def open_data(
        self, settings: VtabSettings, datasets: Sequence[GivenDataset], name: str
    ) -> list[StudySource]:
        """Open the sources: those of the settings, those given by name, and those cut from one dataset."""
        named, plain = read_given(datasets)
        if len(plain) > 1:
            names = ", ".join(f"'{dataset.label}'" for dataset in plain[:2])
            raise UserError(
                f"{len(plain)} datasets are given without a name ({names}); write NAME=PATH, as in "
                "omniglot=PATH or md:mine=PATH, and at most one dataset without."
            )
        named = {**{name: GivenDataset(name, spec) for name, spec in settings.sources.items()}, **named}
        sources = open_sources(named, settings.seed)
        for dataset in plain:
            sources += cut_dataset(dataset.open(), settings.cut, settings.seed)
        check_names([source.name for source in sources])
        if not any(source.role in ("md", *GROUPS) for source in sources):
            raise UserError(
                "No source to evaluate on was given and at least 1 is needed: NAME=PATH with a source of MD-v2 or a "
                "task of VTAB-v2, or one plain dataset such as toybox."
            )
        order, roles = list(TITLES), ("md", *GROUPS, "upstream")

        def rank(source: StudySource) -> tuple[int, int]:
            """Order sources as the paper lists them, the user's own last."""
            return roles.index(source.role), order.index(source.name) if source.official else len(order)

        return sorted(sources, key=rank)

    def sources(self, data: Sequence[StudySource]) -> Mapping[str, Dataset]:
        """Return all sources by name, those that only train last."""
        return {source.name: source.data for source in data}

    def identity(self, data: Sequence[StudySource]) -> Mapping[str, str]:
        """Return the same identity for all sources: more may be added later."""
        return {"name": "VTAB+MD", "fingerprint": ""}

    def plan(self, settings: VtabSettings, data: Sequence[StudySource]) -> VtabPlan:
        """Plan networks, testbeds and rows that are possible with these sources."""
        return make_vtab_plan(settings, data)

    def comparisons(self, settings: VtabSettings) -> list[Comparison]:
        """List comparisons of rows that differ in one factor, as the settings name them."""
        return vtab_comparisons(settings)

    def claims(self, settings: VtabSettings) -> list[Claim[VtabLab]]:
        """List those of the paper's claims that the rows of these settings are about."""

        return vtab_claims(settings)

    def work(self, lab: VtabLab) -> None:
        """Make testbeds and networks, choose among candidates, then evaluate all rows."""
        plan = plan_of(lab)
        lab.folder.remember_sources(lab.datasets)
        for draw in plan.draws:  # before anything is trained
            testbed = lab.draw(draw)
            missing = supportless(testbed) if draw.name in plan.big else 0
            if missing:
                lab.notes.append(
                    f"{draw.name}: {missing} of {len(testbed[0].classes)} classes have no support image."
                )
        told_by: dict[str, list[str]] = {}  # what a training tells → the networks that tell it
        for name, record in lab.train_all().items():
            for note in record.notes:
                told_by.setdefault(note, []).append(name)
        for note, names in told_by.items():
            lab.notes.append(f"Network{'s' if len(names) > 1 else ''} {', '.join(names)}: {note}.")
        lab.notes += [note for choice in choices_of(lab).values() for note in choice.notes]
        lab.notes += unequal_budgets(lab.settings)
        uneven = unbalanced(lab)
        for name in uneven:
            lab.draw(shuffled_draw(name, plan.big[name], lab.testbeds[name], lab.settings.seed))
        for row in plan.rows:
            if row.md is not None and plan.episodic:
                lab.evaluate(plan.draws_of(lab.settings, row), row.backbone, [row.md])
            method = big_method(lab, row.name)
            if method is not None:
                testbeds = [*plan.big, *(shuffled_name(name) for name in uneven)]
                lab.evaluate(testbeds, row.backbone, [method])
        lab.notes += floor_notes(vtab_scores(lab))

    def tables(self, lab: VtabLab) -> list[TableFile]:
        """Make the tables: aggregates, every source, floors, differences, settings chosen, networks."""
        from longshot.studies.vtab_md.vtab_md_tables import vtab_tables

        return vtab_tables(lab, vtab_scores(lab))

    def figures(self, lab: VtabLab) -> Drawings:
        """Return the layouts of the paper's figures, for the study's own numbers and the printed ones."""
        from longshot.studies.vtab_md.vtab_md_figures import vtab_figures

        return vtab_figures(lab.settings, vtab_scores(lab))


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
    """List the claims whose rows are compared by these settings; other pairs are left out."""
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
            own = replace(statement, pairs=pairs)
            control = partial(_learned, own) if statement.expects == "same" else None
            more: dict[str, Any] = {
                "printed": statement.words,
                "factor": compared[pairs[0]],
                "control": control,
            }
            claims.append(Claim(**same, measure=partial(_measure, own), **more))
    return claims


def _measure(statement: Statement, lab: VtabLab) -> Sequence[Measured]:
    """Measure a number for every pair of rows and everything they are compared on."""
    scores = vtab_scores(lab)
    rows = {row.name for row in scores.rows}
    pairs = [pair for pair in statement.pairs if rows.issuperset(pair)]
    if not pairs:
        raise NotMeasured("the rows that it is about were left out")
    return _numbers(statement, scores, pairs)


def _learned(statement: Statement, lab: VtabLab) -> Sequence[Measured]:
    """Measure how far the rows are above the best constant answer: rows that learned nothing are the same."""
    rows = dict.fromkeys(name for pair in statement.pairs for name in pair)
    return _numbers(statement, vtab_scores(lab), [(name, CONSTANT) for name in rows])


def _numbers(statement: Statement, scores: VtabScores, pairs: Sequence[Pair]) -> Sequence[Measured]:
    """Return a number for every pair and everything that they are compared on."""
    numbers = [
        number
        for pair in pairs
        for label, on, sources in _places(statement, scores)
        if (number := _number(scores, pair, label, on, sources)) is not None
    ]
    titles = ", ".join(PRINTED_TITLES.get(on, on) for on in statement.on)
    return some(numbers, f"none of the data that it is about is here: {titles}")


def _places(statement: Statement, scores: VtabScores) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (words, key of the paper's tables, sources) of everything that is compared on.

    The paper speaks of MD-v2 and VTAB-v2: sources of one's own are other data, and no claim is about them.
    """
    official = replace(scores, sources=[source for source in scores.sources if source.official])
    parts = {part.key: part for part in official.parts()}
    places: list[tuple[str, str, tuple[str, ...]]] = []
    for on in statement.on:
        if on == EACH:
            listed = [source for source in official.sources if source.role == "md"]
            places += [(s.title, s.name, (s.name,)) for s in listed if s.name not in statement.apart]
        elif on in PARTS:
            places += [(parts[on].title, on, parts[on].sources)] if on in parts else []
        else:
            here = [source for source in official.sources if source.name == on]
            places += [(source.title, on, (on,)) for source in here]
    return places


def _number(scores: VtabScores, pair: Pair, label: str, on: str, sources: Sequence[str]) -> Measured | None:
    """Measure the first row minus the second, mean over sources; None where a row lacks one of them."""
    differences: list[Floats] = []
    for source in sources:
        difference = scores.paired(*pair, source)
        if difference is None:
            return None
        differences.append(difference)
    return of_sources(f"{pair[0]} − {pair[1]}, {label}", differences, printed_difference(*pair, on))


RECIPE = VtabMd()
