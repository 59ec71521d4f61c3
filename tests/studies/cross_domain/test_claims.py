"""Verdicts on the sentences about domains: planted tasks on either side of every rule."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from longshot.studies.cross_domain.claims import claims_table
from longshot.studies.cross_domain.scores import CROSS, OTHER, OWN, WITHIN, SettingTasks

YES, NO, OPEN = "confirmed", "contradicted", "not decided by these tasks"
HARDER = "Cross-domain any-way any-shot is harder than within-domain 5-way 5-shot"
BEST = "Prototypical Networks are best without pre-training"
WORST = "Train-from-scratch is the worst baseline"
WAYS, SHOTS = "Accuracy falls with the number of ways", "Accuracy rises with the number of shots"
EARLY = "Most of the gain comes with the first five shots"
ORDER = "The ranking of methods does not depend on ways and shots"
SPREAD = "Domains differ in difficulty"


def wave(count: int, height: float = 0.01) -> np.ndarray:
    """Tasks that alternate around 0."""
    return height * np.where(np.arange(count) % 2, -1.0, 1.0)


def setting(
    trained: tuple[str, ...],
    scores: dict[str, np.ndarray],
    way: list[int] | None = None,
    shot: list[int] | None = None,
    domain: list[str] | None = None,
) -> SettingTasks:
    count = len(next(iter(scores.values())))
    by_key = {(kind, method): values for kind in trained for method, values in scores.items()}
    names = np.array(domain or ["a"] * (count // 2) + ["b"] * (count - count // 2))
    return SettingTasks(names, np.array(way or [5] * count), np.array(shot or [5] * count), by_key, by_key)


def claims(
    cross: SettingTasks, within: SettingTasks | None = None, *, random: bool = False
) -> dict[str, dict[str, str]]:
    """Claim → its row; without tasks of their own the within-domain ones have the same scores."""
    methods = [method for _, method in cross.normalised]
    if within is None:
        own = {(kind, m): cross.normalised[OTHER, m] for kind in (OWN, OTHER) for m in methods}
        within = SettingTasks(cross.domain, cross.way, cross.shot, own, own)
    table = claims_table(methods, {WITHIN: within, CROSS: cross}, random=random)
    return {record["claim"]: dict(record) for record in table.records}


def pair(first: np.ndarray, second: np.ndarray, **columns: list[int]) -> SettingTasks:
    return setting((OTHER,), {"matching": first, "fomaml": second}, **columns)


def by_shot(levels: dict[int, float], each: int = 4) -> dict[str, str]:
    shot = [number for number in levels for _ in range(each)]
    scores = np.array([levels[number] for number in shot]) + wave(len(shot), 0.001)
    return claims(pair(scores, scores, shot=shot))[EARLY]


@pytest.mark.parametrize(
    ("early", "late", "verdict"),
    [(0.1, 0.001, YES), (0.001, 0.05, NO), (0.02, 0.02, OPEN), (-0.05, -0.08, OPEN)],
)
def test_the_first_five_shots_gain_most(early: float, late: float, verdict: str) -> None:
    levels = {shot: early * min(shot, 5) + late * max(0, shot - 5) for shot in (1, 2, 3, 4, 5, 7, 9, 11)}
    row = by_shot(levels)
    assert row["verdict"] == verdict
    assert row["here"].startswith(f"points per shot: {100 * early:+.1f} [")
    assert f"up to 5, {100 * late:+.1f} [" in row["here"] and row["here"].endswith("beyond")


def test_the_first_five_shots_need_tasks_on_both_sides() -> None:
    too_few = "too few tasks on either side of five shots"
    assert by_shot({5: 0.5}) == {"claim": EARLY, "here": too_few, "verdict": OPEN}
    assert by_shot({4: 0.4, 5: 0.5})["here"] == too_few  # no task beyond
    assert by_shot({4: 0.4, 6: 0.5})["here"] == too_few  # one number of shots on each side
    assert by_shot({4: 0.4, 5: 0.5, 6: 0.6}, each=2)["here"] != too_few  # four tasks on each side are enough
    assert by_shot({4: 0.4, 5: 0.5, 6: 0.6}, each=1)["here"] == too_few


def test_the_sweeps_have_their_signs() -> None:
    number = list(range(2, 14))
    rising = np.array(number) / 20
    level = np.array([0.5, 0.4] * 6)
    rows = claims(pair(rising, rising, way=number, shot=number))
    assert (rows[WAYS]["verdict"], rows[SHOTS]["verdict"]) == (NO, YES)
    rows = claims(pair(-rising, -rising, way=number, shot=number))
    assert (rows[WAYS]["verdict"], rows[SHOTS]["verdict"]) == (YES, NO)
    rows = claims(pair(level, level, way=number, shot=number))
    assert (rows[WAYS]["verdict"], rows[SHOTS]["verdict"]) == (OPEN, OPEN)
    assert rows[WAYS]["here"].endswith(", 12 tasks")


def test_the_order_of_methods_is_contradicted_where_both_halves_tell_them_apart() -> None:
    way = [2] * 8 + [20] * 8
    gap = np.repeat([0.1, -0.1], 8)
    crossing = pair(0.5 + gap + wave(16), np.full(16, 0.5), way=way)
    row = claims(crossing)[ORDER]
    assert row["verdict"] == NO and row["here"] == "matching and fomaml (ways)"
    row = claims(setting((OTHER,), {"matching": 0.5 + gap + wave(16), "fomaml": np.full(16, 0.5)}, shot=way))[
        ORDER
    ]
    assert row["here"] == "matching and fomaml (shots)"
    same_side = pair(0.5 + np.abs(gap) + wave(16), np.full(16, 0.5), way=way)
    assert claims(same_side)[ORDER]["verdict"] == "not contradicted"
    one_half = pair(0.5 + np.repeat([0.1, 0.0], 8) + wave(16), np.full(16, 0.5), way=way)
    row = claims(one_half)[ORDER]
    assert row["here"] == "none of 1 pairs of baselines changes sides beyond its interval"


def test_tasks_at_the_median_belong_to_the_lower_half() -> None:
    way = [2] * 4 + [3] * 4 + [20] * 6
    gap = np.repeat([0.1, -0.1], [8, 6])
    row = claims(pair(0.5 + gap + wave(14), np.full(14, 0.5), way=way))[ORDER]
    assert row["verdict"] == NO  # with the threes among the twenties, those would not be told apart


def test_halves_are_judged_at_a_level_for_all_pairs_and_sweeps() -> None:
    """A gap that one half of one pair would tell apart, but not one of four."""
    way = [2] * 8 + [20] * 8
    error = 0.01 * np.sqrt(8 / 7) / np.sqrt(8)
    single, four = (stats.t.ppf(1 - 0.05 / (2 * tests), 7) for tests in (1, 4))
    for factor, verdict in ((single + 0.05, "not contradicted"), (four + 0.05, NO)):
        gap = np.repeat([factor * error, -factor * error], 8)
        assert claims(pair(0.5 + gap + wave(16), np.full(16, 0.5), way=way))[ORDER]["verdict"] == verdict


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (0.2, 0.1, YES),
        (0.2, 0.0, f"{YES} for 1 of 2 baselines, open for the others"),
        (0.2, -0.1, NO),
        (0.0, 0.0, OPEN),
    ],
)
def test_across_domains_is_harder_for_every_baseline_or_for_some(
    first: float, second: float, verdict: str
) -> None:
    base = 0.4 + wave(12)
    within = setting((OWN, OTHER), {"matching": base + first, "fomaml": base + second})
    row = claims(pair(base, base), within)[HARDER]
    assert row["verdict"] == verdict
    assert f"matching {100 * first:+.1f} [" in row["here"]


def test_the_worst_baseline_is_below_every_other_at_a_level_for_all_of_them() -> None:
    base = np.full(8, 0.3)
    error = 0.01 * np.sqrt(8 / 7) / np.sqrt(8)
    single, two = (stats.t.ppf(1 - 0.05 / (2 * tests), 7) for tests in (1, 2))
    close, far = base + (single + two) / 2 * error + wave(8), base + 0.3 + wave(8)

    def verdict(**methods: np.ndarray) -> dict[str, str]:
        return claims(setting((OTHER,), {"train-from-scratch": base, **methods}))[WORST]

    assert verdict(matching=close)["verdict"] == YES
    assert verdict(matching=close, fomaml=far)["verdict"] == OPEN  # two others: the level is stricter
    assert verdict(matching=far, fomaml=base - 0.2 + wave(8))["verdict"] == NO
    assert "(fomaml)" in verdict(matching=far, fomaml=far - 0.1)["here"]  # the lowest of the others is named


def test_the_settings_are_named_where_they_disagree() -> None:
    base = np.full(8, 0.3)
    above, below = base + 0.3 + wave(8), base - 0.2 + wave(8)
    within = setting((OWN, OTHER), {"train-from-scratch": base, "matching": above})
    cross = setting((OTHER,), {"train-from-scratch": base, "matching": below})
    assert claims(cross, within)[WORST]["verdict"] == f"{WITHIN}: {YES}; {CROSS}: {NO}"


def test_the_first_place_may_be_shared() -> None:
    base = 0.5 + wave(12)
    noise = 0.1 * np.array([1, -1, -1, 1] * 3)
    shared = claims(setting((OTHER,), {"prototypical": base, "matching": base + noise}), random=True)
    assert shared[BEST]["verdict"] == OPEN
    assert f"{CROSS}: first place prototypical, matching" in shared[BEST]["here"]
    lone = setting((OTHER,), {"prototypical": base, "matching": base - 0.2})
    assert claims(lone, random=True)[BEST]["verdict"] == YES
    assert BEST not in claims(lone)  # said of random weights only


def test_domains_differ_where_the_ends_do() -> None:
    """Three domains: the ends were picked, so the level is that of all three pairs."""
    count = 10
    error = 0.01 * np.sqrt(count / (count - 1)) * np.sqrt(2 / count)
    single, three = (stats.t.ppf(1 - 0.05 / (2 * tests), 2 * count - 2) for tests in (1, 3))
    domain = [name for name in "abc" for _ in range(count)]

    def verdict(gap: float, gap_within: float) -> dict[str, str]:
        settings = []
        for trained, width in (((OTHER,), gap), ((OWN, OTHER), gap_within)):
            scores = np.repeat([0.5, 0.5 - width / 2, 0.5 - width], count) + wave(3 * count)
            settings.append(setting(trained, {"matching": scores, "fomaml": scores - 0.1}, domain=domain))
        return claims(*settings)[SPREAD]

    wide, narrow = (three + 0.1) * error, (single + three) / 2 * error
    assert verdict(wide, wide)["verdict"] == YES
    assert verdict(wide, narrow)["verdict"] == verdict(narrow, wide)["verdict"] == f"{YES} in one setting"
    assert verdict(narrow, narrow)["verdict"] == OPEN
    row = verdict(0.2, 0.1)
    assert f"{WITHIN}: intrinsic difficulty from 50 (a) to 60 (c)" in row["here"]
    assert f"{CROSS}: intrinsic difficulty from 50 (a) to 70 (c)" in row["here"]
