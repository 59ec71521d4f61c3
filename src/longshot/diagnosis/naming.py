"""One cause, not ten symptoms: which of the attributes that set a support apart explains the others.

What is seen in the pixels is read by ``signatures``. Let u be the shift of the support's scores against the queries'.
Every alteration is a path from 0 through its forms, weak to strong, and the point of a path nearest to the shift is
what this alteration explains of it,

    explained_A = max_p 2 ⟨d, δ_p⟩ − ⟨δ_p, δ_p⟩,   z_A = √(n · explained_A),

n being the number of images that the shift is worth. The alteration that explains most is named. It is taken out of the
shift, and another attribute is a symptom of it where less than half of its own z is left, or less than 2. What is not a
symptom is named in turn.

Attributes that are annotated, and measures that no alteration explains, are told apart by their correlation ρ within
classes: j is a symptom of i where the partial z_j·i = (z_j − ρ z_i) / √(1 − ρ²) is less than half of z_j, or below 2.
Where an annotation and what is seen are one thing (|ρ| > 0.7), the annotation is the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from longshot.base import Bools, Floats, Ints
from longshot.diagnosis.alterations import ALTERED, FORM_ATTRIBUTES, FORMS
from longshot.diagnosis.gaps import Gaps
from longshot.diagnosis.signatures import Signatures

_REMAINS = 0.5  # share of a z that may be left for an attribute to be a symptom
_WEAK = 2.0  # z that is too small to be a cause beside another
_FURTHER = (
    4.0  # z that a further alteration needs: paths are bent, so that a strong one leaves traces of others
)
_MINOR = 0.05  # and the share of what the first explains
_SAME = 0.7  # correlation from which an annotation and what is seen in the pixels are one thing
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
    """A task, or one class of it: what every column says, and the shift of the scores of all forms."""

    p: Floats  # [C]
    z: Floats  # [C] signed
    effect: Floats  # [C]
    shift: Floats | None  # [F]
    size: float  # n: images that the shift is worth


def task_scope(gaps: Gaps, task: int) -> Scope:
    """A task as a whole."""
    groups = np.flatnonzero(gaps.groups.task == task)
    shift = None if gaps.shift is None else gaps.shift[groups].mean(0)
    size = len(groups) ** 2 / max(float((1 / gaps.size[groups]).sum()), 1e-9)
    return Scope(gaps.task_p[:, task], gaps.task_z[:, task], gaps.task_effect[:, task], shift, size)


def class_scope(gaps: Gaps, group: int) -> Scope:
    """One class of one task."""
    shift = None if gaps.shift is None else gaps.shift[group]
    return Scope(gaps.p[:, group], gaps.z[:, group], gaps.effect[:, group], shift, float(gaps.size[group]))


def name_causes(gaps: Gaps, scope: Scope, real: Sequence[int]) -> list[Named]:
    """The causes among the columns ``real`` (one per attribute) that set a support apart, strongest evidence first."""
    seen = [column for column in real if gaps.columns[column].attribute in gaps.measured]
    causes: list[Named] = []
    unnamed = seen
    if gaps.signatures is not None and scope.shift is not None:
        causes, unnamed = _alterations(gaps, gaps.signatures, scope, seen)
    ordered = causes + [Named(column) for column in sorted(unnamed, key=lambda c: scope.p[c])]
    # The cause comes before its symptoms and before what it leaves, however small their p.
    keys = {cause.column: float(scope.p[cause.column]) for cause in ordered}
    if ordered:
        keys[ordered[0].column] = min(float(scope.p[column]) for column in seen)
    for column in real:
        if column not in seen:
            ordered.append(Named(column))
            keys[column] = float(scope.p[column])
    ordered.sort(key=lambda cause: keys[cause.column])
    return _by_correlation(gaps, scope, ordered)


def _alterations(
    gaps: Gaps, signatures: Signatures, scope: Scope, seen: Sequence[int]
) -> tuple[list[Named], list[int]]:
    """Alterations that explain the columns ``seen``, and the columns that none explains."""
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


def _by_correlation(gaps: Gaps, scope: Scope, ordered: Sequence[Named]) -> list[Named]:
    """Causes without those that an earlier one explains by their correlation; these become its symptoms."""
    causes: list[Named] = []
    for cause in ordered:
        z = scope.z[cause.column]
        for number, earlier in enumerate(causes):
            if cause.form is not None and earlier.form is not None:
                continue  # told apart by their signatures
            rho = float(np.clip(gaps.correlation[earlier.column, cause.column], -0.999, 0.999))
            remaining = abs(z - rho * scope.z[earlier.column]) / np.sqrt(1 - rho**2)
            if remaining < max(_REMAINS * abs(z), _WEAK) and abs(rho) > 0.1:
                chief, other = earlier, cause
                if abs(rho) > _SAME and _annotated(gaps, cause) and not _annotated(gaps, earlier):
                    chief, other = cause, earlier  # one thing under two names: somebody has named it
                hidden = gaps.columns[other.column].attribute in ALTERED
                symptoms = (*chief.symptoms, *(() if hidden else (other.column,)), *other.symptoms)
                causes[number] = replace(chief, symptoms=symptoms)
                break
        else:
            causes.append(cause)
    return causes


def _annotated(gaps: Gaps, cause: Named) -> bool:
    return gaps.columns[cause.column].attribute not in gaps.measured


@dataclass(frozen=True, eq=False)
class _Projection:
    """A shift of scores seen from every way between two forms: what it explains at most, and where on it, [F] each."""

    explained: Floats
    position: Floats

    def most(self, allowed: Bools) -> float:
        """The most that any of the ways explains that are ``allowed``."""
        return float(self.explained[allowed].max(initial=0.0))

    def by_attribute(self) -> Floats:
        """What each alteration explains, whichever way: in the order of ``ALTERED``."""
        best: Floats = np.maximum.reduceat(self.explained, _STARTS)
        return best

    def nearest(self, end: int) -> tuple[int, Floats]:
        """The form nearest to the point on the way to form ``end``, and the point as a mixture [F] of forms."""
        start, position = int(_paths()[0][end]), float(self.position[end])
        mixture = np.zeros(len(FORMS))
        mixture[end] = position
        if start < 0:
            return end, mixture
        mixture[start] = 1 - position
        return end if position >= 0.5 else start, mixture


@lru_cache(maxsize=1)
def _paths() -> tuple[Ints, Floats]:
    """For every form the form before it on its path (−1: the path begins here), and how far one may go past it."""
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
