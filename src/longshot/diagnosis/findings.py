"""From gaps to sentences: what a person would say about a task, strongest evidence first; one cause, not ten symptoms.

What somebody annotated is asked first, the surest first. Then all is compared value against value of it
(``attribute_gaps``), and an attribute is a symptom where less than half of its own z is left, or less than 2. For
numbers the partial z_j·i = (z_j − ρ z_i) / √(1 − ρ²) by the correlation ρ within classes serves.

Next comes how images look: clusters of an embedding, for they hold what has no measure.

What is left in the pixels is read by ``signatures``. Let u be the shift of the support's scores against the queries'.
Every alteration is a path from 0 through its forms, weak to strong, and the point of a path nearest to the shift is
what this alteration explains of it,

    explained_A = max_p 2 ⟨d, δ_p⟩ − ⟨δ_p, δ_p⟩,   z_A = √(n · explained_A),

n being the number of images that the shift is worth. The alteration that explains most is named. It is taken out of the
shift, and another attribute is a symptom of it where less than half of its own z is left, or less than 2. What is not a
symptom is named in turn. Where an alteration explains half of ‖d‖² or more, it comes before the look.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from longshot.base import Bools, Floats, Ints
from longshot.diagnosis.alterations import ALTERED, FORM_ATTRIBUTES, FORMS, MEASURES, Signatures, kind_of
from longshot.diagnosis.attribute_gaps import LOOK, AttributeColumn, Gaps
from longshot.statistics import percent

_REMAINS = 0.5  # share of a z that may be left for an attribute to be a symptom
_WEAK = 2.0  # z that is too small to be a cause beside another
_FURTHER = (
    4.0  # z that a further alteration needs: paths are bent, so that a strong one leaves traces of others
)
_MINOR = 0.05  # and the share of what the first explains
_MOST = 0.5  # part of a shift that an alteration explains where it is what makes images look alike
_ATTRIBUTES = np.array(FORM_ATTRIBUTES)
_STARTS = [FORM_ATTRIBUTES.index(name) for name in ALTERED]  # the first form of each alteration
_NUMBER_OF = {name: number for number, name in enumerate(ALTERED)}
_BEYOND = 1.5  # how far past its strongest form an alteration may go


@dataclass(frozen=True)
class Named:
    """A cause in a task or in one of its classes.

    Attributes
    ----------
    column : int
        Of ``Gaps``: the attribute that names the cause.
    form : int, optional
        Of ``FORMS``, the nearest to what is seen; None for attributes that are not alterations.
    reverse : bool
        Whether it is the queries that look altered.
    symptoms : tuple of int
        Columns that differ as well and that the cause explains; likeness to other alterations is not listed.
    """

    column: int
    form: int | None = None
    reverse: bool = False
    symptoms: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Scope:
    """A task, or one class of it: what every column says, and how far its descriptors are shifted."""

    p: Floats  # [C]
    z: Floats  # [C] signed
    effect: Floats  # [C]
    shift: Floats | None  # [F] of the scores of all forms
    length: float  # ‖d‖² of the descriptors, without what chance gives
    size: float  # n: images that the shift is worth
    value_by_value: Callable[[str], Scope]  # what is left, value against value of an attribute


def task_scope(gaps: Gaps, task: int, attribute: str | None = None) -> Scope:
    """Build the scope of a task as a whole."""
    groups = np.flatnonzero(gaps.groups.task == task)
    source = gaps if attribute is None else gaps.given(attribute)
    size = len(groups) ** 2 / max(float((1 / gaps.size[groups]).sum()), 1e-9)
    return Scope(
        gaps.task_p[:, task],
        source.task_z[:, task],
        gaps.task_effect[:, task],
        *_shift(gaps, source.shift, groups, size),
        size,
        partial(task_scope, gaps, task),
    )


def class_scope(gaps: Gaps, group: int, attribute: str | None = None) -> Scope:
    """Build the scope of one class of one task."""
    source, size = gaps if attribute is None else gaps.given(attribute), float(gaps.size[group])
    return Scope(
        gaps.p[:, group],
        source.z[:, group],
        gaps.effect[:, group],
        *_shift(gaps, source.shift, np.array([group]), size),
        size,
        partial(class_scope, gaps, group),
    )


def _shift(gaps: Gaps, shift: Floats | None, groups: Ints, size: float) -> tuple[Floats | None, float]:
    """Compute the scores of the mean shift of some groups, and how long it is beyond chance."""
    if shift is None or gaps.signatures is None:
        return None, 0.0
    mean = shift[groups].mean(0)
    length = float(((mean @ gaps.signatures.root) ** 2).sum()) - gaps.signatures.chance / size
    return mean @ gaps.signatures.weights, length


def name_causes(gaps: Gaps, scope: Scope, real: Sequence[int]) -> list[Named]:
    """Name the causes among columns ``real`` (one per attribute) that set a support apart, surest first.

    What somebody annotated is asked first, then how images look, then what was seen in the pixels: each only about what
    the earlier ones leave. A look is asked after the alterations where one of them explains most of the shift, for
    then it is the alteration that makes images look alike.
    """
    by_p = sorted(real, key=lambda column: (not _annotated(gaps, column), float(scope.p[column])))
    chiefs = [c for c in by_p if _annotated(gaps, c)]
    looks = [c for c in by_p if gaps.columns[c].attribute == LOOK]
    altered = bool(looks) and _explained_share(gaps, scope) >= _MOST
    causes: list[Named] = []
    measured = [c for c in by_p if c not in chiefs and c not in looks]
    for column in [*chiefs, *looks] if not altered else chiefs:
        _add(gaps, scope, causes, Named(column))
    seen = []
    for column in measured:
        if not _explained(gaps, scope, causes, column):
            seen.append(column)
    remaining = scope
    for cause in causes[:1]:
        if gaps.columns[cause.column].value is not None:
            remaining = scope.value_by_value(gaps.columns[cause.column].attribute)
    by_form, unnamed = list[Named](), seen
    if gaps.signatures is not None and remaining.shift is not None:
        by_form, unnamed = _alterations(gaps, gaps.signatures, remaining, seen)
    if by_form and altered:
        by_form[0] = replace(by_form[0], symptoms=(*by_form[0].symptoms, *looks))
    for cause in [*by_form, *(Named(column) for column in sorted(unnamed, key=lambda c: scope.p[c]))]:
        _add(gaps, scope, causes, cause)
    return causes


def _add(gaps: Gaps, scope: Scope, causes: list[Named], cause: Named) -> None:
    """Add a cause to ``causes``, or as a symptom of the one among them that explains it."""
    if cause.form is not None or not _explained(gaps, scope, causes, cause.column):
        causes.append(cause)


def _explained(gaps: Gaps, scope: Scope, causes: list[Named], column: int) -> bool:
    """Tell whether one of ``causes`` explains a column, which then stands among its symptoms."""
    z = scope.z[column]
    for number, cause in enumerate(causes):
        chief = gaps.columns[cause.column]
        if chief.value is not None:  # value against value
            remaining, related = abs(float(scope.value_by_value(chief.attribute).z[column])), True
        else:
            rho = float(np.clip(gaps.correlation[cause.column, column], -0.999, 0.999))
            remaining = abs(z - rho * scope.z[cause.column]) / np.sqrt(1 - rho**2)
            related = abs(rho) > 0.1
        if related and not remaining >= max(_REMAINS * abs(z), _WEAK):
            if gaps.columns[column].attribute not in ALTERED:
                causes[number] = replace(cause, symptoms=(*cause.symptoms, column))
            return True
    return False


def _explained_share(gaps: Gaps, scope: Scope) -> float:
    """Return the part of the shift of the descriptors that the best alteration explains."""
    if gaps.signatures is None or scope.shift is None or scope.length <= 0:
        return 0.0
    allowed = np.array([name in gaps.measured for name in FORM_ATTRIBUTES])
    most = max(_project(gaps.signatures, sign * scope.shift).most(allowed) for sign in (1, -1))
    return most / scope.length


def _alterations(
    gaps: Gaps, signatures: Signatures, scope: Scope, seen: Sequence[int]
) -> tuple[list[Named], list[int]]:
    """Find alterations that explain the columns ``seen``, and the columns that none explains."""
    assert scope.shift is not None
    unnamed = {gaps.columns[column].attribute: column for column in seen}
    columns = {gaps.columns[column].attribute: column for column in range(len(gaps.columns))}
    shift, first_worth = scope.shift, 0.0
    allowed = np.array([name in gaps.measured for name in FORM_ATTRIBUTES])
    causes: list[Named] = []
    while unnamed:
        support, queries = (_project(signatures, sign * shift) for sign in (1, -1))
        reverse = bool(queries.most(allowed) > support.most(allowed))
        best, sign = (queries, -1) if reverse else (support, 1)
        end = int(np.where(allowed, best.explained, -np.inf).argmax())
        worth = float(best.explained[end]) * scope.size
        if not allowed.any() or worth < (max(_FURTHER**2, _MINOR * first_worth) if causes else _WEAK**2):
            break
        form, mixture = best.nearest(end)
        cause = FORM_ATTRIBUTES[form]
        allowed &= cause != _ATTRIBUTES
        after = shift - sign * (mixture * signatures.length) @ signatures.overlap
        before = np.maximum(support.by_attribute(), queries.by_attribute())
        later = np.maximum(*(_project(signatures, way * after).by_attribute() for way in (1, -1)))
        faded = later < np.maximum(_REMAINS**2 * before, _WEAK**2 / scope.size)
        symptoms = []
        for attribute, column in unnamed.items():
            if attribute in ALTERED:
                gone = attribute != cause and bool(faded[_NUMBER_OF[attribute]])
            else:
                effect = scope.effect[column]
                expected = sign * float(mixture @ signatures.effects.get(attribute, np.zeros(len(FORMS))))
                gone = expected * effect > 0 and abs(expected) >= (1 - _REMAINS) * abs(effect)
            if gone:
                symptoms.append(column)
        if not symptoms and cause not in unnamed:
            break  # it explains nothing of what sets the support apart beyond chance
        first_worth = max(first_worth, worth)
        shown = tuple(column for column in symptoms if gaps.columns[column].attribute not in ALTERED)
        causes.append(Named(columns[cause], form, reverse, shown))
        unnamed = {
            attribute: column
            for attribute, column in unnamed.items()
            if attribute != cause and column not in symptoms
        }
        shift = after
    # Likeness to an alteration that explains nothing is no cause.
    return causes, [column for name, column in unnamed.items() if name not in ALTERED]


def _annotated(gaps: Gaps, column: int) -> bool:
    return gaps.columns[column].attribute not in {*gaps.measured, LOOK}


@dataclass(frozen=True, eq=False)
class _Projection:
    """A shift of scores seen from every way between two forms: what it explains at most, and where on it, [F] each."""

    explained: Floats
    position: Floats

    def most(self, allowed: Bools) -> float:
        """Return the most that any of the ``allowed`` ways explains."""
        return float(self.explained[allowed].max(initial=0.0))

    def by_attribute(self) -> Floats:
        """Return the most that each alteration explains in any way, in the order of ``ALTERED``."""
        best: Floats = np.maximum.reduceat(self.explained, _STARTS)
        return best

    def nearest(self, end: int) -> tuple[int, Floats]:
        """Find the form nearest to the point on the way to ``end``, and the point as a mixture [F]."""
        start, position = int(_paths()[0][end]), float(self.position[end])
        mixture = np.zeros(len(FORMS))
        mixture[end] = position
        if start < 0:
            return end, mixture
        mixture[start] = 1 - position
        return end if position >= 0.5 else start, mixture


@lru_cache(maxsize=1)
def _paths() -> tuple[Ints, Floats]:
    """Return each form's predecessor on its path (−1: it is the first), and how far one may go past it."""
    before = [
        number - 1 if number and FORMS[number - 1][0] == name else -1
        for number, (name, _) in enumerate(FORMS)
    ]
    last = [
        number + 1 == len(FORMS) or FORMS[number + 1][0] != name for number, (name, _) in enumerate(FORMS)
    ]
    return np.array(before), np.where(last, _BEYOND, 1.0)


def _project(signatures: Signatures, shift: Floats) -> _Projection:
    """Project a shift of scores [F] on all ways.

    On the way from form a to form b a point is p = δ_a + t (δ_b − δ_a), and with g_ij = ⟨δ_i, δ_j⟩ and q_i = ⟨d, δ_i⟩
    it is nearest at t = (q_b − q_a − g_ab + g_aa) / (g_aa − 2 g_ab + g_bb).
    """
    before, furthest = _paths()
    begins = before < 0
    length = signatures.length
    q_b = shift * length
    q_a = np.where(begins, 0.0, q_b[before])
    g_bb = length**2
    g_aa = np.where(begins, 0.0, g_bb[before])
    g_ab = np.where(begins, 0.0, signatures.overlap[np.arange(len(length)), before] * length * length[before])
    t = (q_b - q_a - g_ab + g_aa) / np.maximum(g_aa - 2 * g_ab + g_bb, 1e-12)
    t = np.clip(t, 0, furthest)
    a = 1 - t
    explained = 2 * (a * q_a + t * q_b) - (a**2 * g_aa + 2 * a * t * g_ab + t**2 * g_bb)
    return _Projection(explained, t)


LEVEL = 0.05  # share of false discoveries that is put up with
_OTHER = ("is lower in '{}' than", "is higher in '{}' than")


@dataclass(frozen=True)
class Finding:
    """One attribute in which the support of a task, or of one of its classes, is unlike the queries."""

    attribute: str
    class_index: int | None  # position in the task's classes; None: over the whole task
    effect: float  # within-class standard deviations, or share, support minus query
    support: float  # mean over the support
    query: float
    p: float
    adjusted: float
    sentence: str
    worst: int  # the class in which the gap is widest: where the evidence is best seen
    kind: str = ""  # of cause (``kinds.kind_of``)
    symptoms: tuple[Finding, ...] = ()  # what differs as well, and is explained by this cause


def findings(gaps: Gaps, task: int, names: Sequence[str], *, level: float = LEVEL) -> list[Finding]:
    """Find what sets the support of one task apart, strongest evidence first.

    An attribute counts over the whole task where that is significant, else in single classes. Of attributes that go
    together the one that explains the others is the finding, and they are its symptoms (``naming``).

    Parameters
    ----------
    gaps : Gaps
        Of the whole testbed, so that p is corrected over all of it.
    task : int
        Position of the task among the bound ones.
    names : sequence
        Names of the task's classes.
    level : float
        The largest adjusted p that counts.
    """
    groups = np.flatnonzero(gaps.groups.task == task)
    over_task, in_class = _significant(gaps, task, groups, level)
    causes = []
    for named in name_causes(gaps, task_scope(gaps, task), over_task):
        cause, *symptoms = (
            _over_task(gaps, column, task, groups, names) for column in (named.column, *named.symptoms)
        )
        causes.append(_joined(cause, symptoms))
    for group, columns in in_class.items():
        for named in name_causes(gaps, class_scope(gaps, group), columns):
            cause, *symptoms = (
                _in_class(gaps, column, group, names) for column in (named.column, *named.symptoms)
            )
            causes.append(_joined(cause, symptoms))
    first = causes[:1] if over_task else []  # named to be the cause, whatever p its symptoms have
    return first + sorted(causes[len(first) :], key=lambda cause: (cause.p, cause.attribute))


def _significant(gaps: Gaps, task: int, groups: Ints, level: float) -> tuple[list[int], dict[int, list[int]]]:
    """Pick the best column of attributes that are significant over the task, and of the others by class."""
    over_task: list[int] = []
    in_class: dict[int, list[int]] = {}
    for members in gaps.attributes().values():
        real = [c for c in members if gaps.task_adjusted[c, task] <= level]
        if real:
            over_task.append(min(real, key=lambda c: float(gaps.task_p[c, task])))
            continue
        for group in groups.tolist():
            single = [c for c in members if gaps.adjusted[c, group] <= level]
            if single:
                in_class.setdefault(group, []).append(min(single, key=lambda c: float(gaps.p[c, group])))
    return over_task, in_class


def _joined(cause: Finding, symptoms: Sequence[Finding]) -> Finding:
    """Join a cause with its symptoms: together they are as sure as the surest of them."""
    surest = min([cause, *symptoms], key=lambda each: each.p)
    return replace(cause, symptoms=tuple(symptoms), p=surest.p, adjusted=surest.adjusted)


def strongest(gaps: Gaps, task: int) -> list[tuple[str, float]]:
    """Rank attributes by smallest p in the task (over all classes, or Šidák-corrected in one), lowest first.

    Significant or not: this ranks the candidates, :func:`findings` says which of them are real.
    """
    groups = np.flatnonzero(gaps.groups.task == task)
    ranked = []
    for attribute, members in gaps.attributes().items():
        over_task = np.nanmin(np.append(gaps.task_p[members, task], 1.0))
        single = np.nanmin(np.append(gaps.p[members][:, groups].ravel(), 1.0))
        corrected = -np.expm1(len(groups) * np.log1p(-min(single, 1 - 1e-16)))
        ranked.append((attribute, float(min(over_task, corrected))))
    return sorted(ranked, key=lambda candidate: (candidate[1], candidate[0]))


def _over_task(gaps: Gaps, best: int, task: int, groups: Ints, names: Sequence[str]) -> Finding:
    members = gaps.attributes()[gaps.columns[best].attribute]
    effects = gaps.effect[best, groups]
    effect = float(gaps.task_effect[best, task])
    same = int((np.sign(effects) == np.sign(effect)).sum())
    worst = int(np.nanargmax(effects * np.sign(effect)))
    means = [
        (float(np.nanmean(gaps.support[c, groups])), float(np.nanmean(gaps.query[c, groups])))
        for c in members
    ]
    support, query = means[members.index(best)]
    difference = _say([gaps.columns[c] for c in members], members.index(best), means, effect)
    extent = "in every class" if same == len(groups) else f"in {same} of {len(groups)} classes"
    return Finding(
        attribute=gaps.columns[best].attribute,
        class_index=None,
        effect=effect,
        support=support,
        query=query,
        p=float(gaps.task_p[best, task]),
        adjusted=float(gaps.task_adjusted[best, task]),
        sentence=f"{difference}, {extent}, most in '{names[worst]}'",
        worst=worst,
        kind=kind_of(gaps.columns[best].attribute),
    )


def _in_class(gaps: Gaps, best: int, group: int, names: Sequence[str]) -> Finding:
    members = gaps.attributes()[gaps.columns[best].attribute]
    position = int(gaps.groups.position[group])
    effect = float(gaps.effect[best, group])
    means = [(float(gaps.support[c, group]), float(gaps.query[c, group])) for c in members]
    difference = _say([gaps.columns[c] for c in members], members.index(best), means, effect)
    return Finding(
        attribute=gaps.columns[best].attribute,
        class_index=position,
        effect=effect,
        support=float(gaps.support[best, group]),
        query=float(gaps.query[best, group]),
        p=float(gaps.p[best, group]),
        adjusted=float(gaps.adjusted[best, group]),
        sentence=f"class '{names[position]}': {difference}",
        worst=position,
        kind=kind_of(gaps.columns[best].attribute),
    )


def _say(
    columns: Sequence[AttributeColumn], best: int, means: Sequence[tuple[float, float]], effect: float
) -> str:
    """Say ``support is darker than the queries by 1.8 σ``, or the shares of the values that differ most."""
    column = columns[best]
    if column.attribute in ALTERED:
        sides = ("support", "the queries") if effect > 0 else ("queries", "the support")
        words = ALTERED[column.attribute].words
        verb = words if effect > 0 else re.sub("^is", "are", re.sub("^has", "have", words))
        return f"{sides[0]} {verb} {sides[1]} by {abs(effect):.1f} σ"
    if column.value is None:
        less, more = [word.format(column.attribute) for word in _OTHER]
        if column.attribute in MEASURES:
            _, less, more = MEASURES[column.attribute]
        return f"support {less if effect < 0 else more} the queries by {abs(effect):.1f} σ"
    if len(columns) == 1:
        support, query = means[0]
        return f"'{column.attribute}' in {percent(support, 0)} % of the support, {percent(query, 0)} % of the queries"
    return f"{column.attribute}: support {_shares(columns, means, 0)}, queries {_shares(columns, means, 1)}"


def _shares(columns: Sequence[AttributeColumn], means: Sequence[tuple[float, float]], side: int) -> str:
    """Say ``all side``, or ``80% side (against 10%), 15% top``: up to three values that are ahead on a side."""
    ahead = [(each[side] - each[1 - side], number) for number, each in enumerate(means)]
    chosen = [number for lead, number in sorted(ahead, key=lambda pair: -pair[0])[:3] if lead > 0.1] or [
        max(ahead)[1]
    ]
    if means[chosen[0]][side] >= 0.995:
        return f"all {columns[chosen[0]].value}"
    return ", ".join(
        f"{percent(means[number][side], 0)} % {columns[number].value} (against {percent(means[number][1 - side], 0)} %)"
        for number in chosen
    )
