"""``longshot.make_split``: a split at a target hardness, at a divergence, random, semantic or published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from longshot.base import UserError, claim_output, is_stream, progress, with_engine
from longshot.data import Dataset, TaxonomyLike, as_dataset, with_taxonomy
from longshot.models import check_made_from
from longshot.tasks.splits.published_splits import published_split, random_split, semantic_split
from longshot.tasks.splits.split import KIND as SPLIT_FILE
from longshot.tasks.splits.split import RATIOS, SHOT, WAY, Split, SplitLike, with_content

if TYPE_CHECKING:
    from longshot.models import BackboneLike, Features

TARGETS = ("like", "harder_than", "learnt_accuracy")
KINDS = (*TARGETS, "divergence", "sweep", "random", "semantic", "published")
_DISTANT = ("divergence", "sweep")
_RECIPE = ("mode", "measure", "assignment", "start", "penalty")
# settings that mean something to some kinds of split only
_KINDS_OF = {
    "by": ("harder_than",),
    **dict.fromkeys(_RECIPE, _DISTANT),
    **dict.fromkeys(("level", "taxonomy", "reduction"), ("semantic",)),
    "order": ("published", "like", "harder_than"),
    "ratios": tuple(kind for kind in KINDS if kind != "published"),
}


class SplitSettings(TypedDict, total=False):
    """The settings of ``make_split`` but ``sweep``, for type checkers."""

    like: SplitLike | None
    harder_than: SplitLike | None
    by: float | None
    learnt_accuracy: float | None
    divergence: float | None
    random: bool
    semantic: bool
    published: str | None
    backbone: BackboneLike | None
    features: Features | str | Path | None
    mode: str | None
    measure: str | None
    assignment: str | None
    start: str | None
    penalty: float | None
    level: int | None
    taxonomy: TaxonomyLike | None
    reduction: str | None
    order: str | Path | None
    ratios: Sequence[float] | None
    way: int
    shot: int
    hardness: bool
    out: str | Path | None
    force: bool
    identity: str | None
    device: str
    seed: int


@overload
def make_split(
    dataset: Dataset | str | Path, *, sweep: None = None, **settings: Unpack[SplitSettings]
) -> Split: ...
@overload
def make_split(
    dataset: Dataset | str | Path, *, sweep: Sequence[float], **settings: Unpack[SplitSettings]
) -> list[Split]: ...
@with_engine
def make_split(
    dataset: Dataset | str | Path,
    *,
    like: SplitLike | None = None,
    harder_than: SplitLike | None = None,
    by: float | None = None,
    learnt_accuracy: float | None = None,
    divergence: float | None = None,
    sweep: Sequence[float] | None = None,
    random: bool = False,
    semantic: bool = False,
    published: str | None = None,
    backbone: BackboneLike | None = None,
    features: Features | str | Path | None = None,
    mode: str | None = None,
    measure: str | None = None,
    assignment: str | None = None,
    start: str | None = None,
    penalty: float | None = None,
    level: int | None = None,
    taxonomy: TaxonomyLike | None = None,
    reduction: str | None = None,
    order: str | Path | None = None,
    ratios: Sequence[float] | None = None,
    way: int = WAY,
    shot: int = SHOT,
    hardness: bool = True,
    out: str | Path | None = None,
    force: bool = False,
    identity: str | None = None,
    device: str = "auto",
    engine: str | None = None,
    seed: int = 0,
) -> Split | list[Split]:
    """Divide the classes of a dataset into train, validation and test.

    One of ``like``, ``harder_than``, ``learnt_accuracy``, ``divergence``, ``sweep``, ``random``, ``semantic`` and
    ``published`` says which kind of split it is. Where there are features, how hard the split is stands in
    ``made["hardness"]``, beside ``made["references"]``.

    Parameters
    ----------
    dataset : Dataset, str or path
        A dataset, its name or its path.
    like : SPLIT, Split, str or path, optional
        As hard as this split: fc100, random, a split.json …, in frozen accuracy, learnt accuracy and transfer
        loss. What ``open_split`` takes; a bare ``random`` or ``semantic`` is the mean of 20 such splits.
    harder_than : SPLIT, Split, str or path, optional
        Harder than this split, ``by`` so many points.
    by : POINTS, float, optional
        With ``harder_than``: how many points of learnt accuracy, such as 15.
    learnt_accuracy : SHARE, float, optional
        Accuracy on the test classes after learning from the train classes, such as 0.65.
    divergence : R, float, optional
        How far apart train and test classes are; 0 is random. They are seen through ``backbone`` or
        ``features``.
    sweep : R,R,…, sequence of float, optional
        One split for each of several divergences.
    random : bool
        Classes at random.
    semantic : bool
        Whole super-classes of the dataset's taxonomy.
    published : NAME, str, optional
        A published list: atg:cifar100@0.96, cifar-fs, fc100 …
    backbone : str or object, optional
        What the classes are seen through (see 'longshot backbones'). Anything that ``embed`` takes. Random,
        semantic and published splits need none, and are measured where there is one.
    features : Features, or file or URL, optional
        FILE.npy of 'longshot embed -o' instead.
    mode : {"principal", "paper"}, optional
        How classes are assigned to parts. Default: principal.
    measure : {"kl-symmetric", "kl", "wasserstein", "euclidean"}, optional
        Divergence of the train and test classes. Default: kl-symmetric.
    assignment : {"drawn", "sorted"}, optional
        Whether classes are drawn by their probability, or sorted by it. Default: drawn in mode principal,
        sorted in mode paper.
    start : {"principal", "random", "randn"}, optional
        Of mode paper: where the optimiser begins; randn is the authors' own. Default: principal.
    penalty : float, optional
        Of mode paper: λ, the weight of (D − R)². Default: 1.
    level : int, at least 0, optional
        Of semantic splits: depth of super-classes. Default: the classes' parents.
    taxonomy, reduction : optional
        As in ``measure_distances``.
    order : file, optional
        Class ids in the order of the published numbers, one a line.
    ratios : T,V,T, sequence of 3 floats, optional
        Shares of train, validation and test. With ``like``, those of that split. Validation and test get ⌊ratio
        · classes⌋ classes each, train the others. Default: 0.6,0.2,0.2.
    way, shot : optional
        As in ``compare_splits``.
    hardness : bool
        Measure how hard the split is, where there are features. A target always is.
    out : file, optional
        split.json to write; a sweep adds -R to the name. ``"-"`` is the screen.
    force : bool
        Replace what is there, even if it is no split that Longshot wrote.
    identity, device, engine : optional
        As in ``embed``.
    seed : int, at least 0
        Random seed.

    Returns
    -------
    Split, or list of Split for a sweep
        The classes of each part, and in ``made`` how they were chosen.

    Examples
    --------
    >>> split = make_split("toybox", backbone="pixels", divergence=0.64, out="far.json")
    >>> list(split.sizes)
    ['train', 'validation', 'test']
    >>> hard = make_split("toybox", backbone="pixels", harder_than="random", by=10)  # doctest: +SKIP
    """
    settings = dict(locals())
    kind = split_kind(settings)
    for file in _files(out, kind, sweep):
        claim_output(file, SPLIT_FILE, force=force)
    opened = as_dataset(dataset).with_identity(identity)
    shares = RATIOS if ratios is None else tuple(ratios)
    seen = _features(opened, settings, needed=kind in (*TARGETS, *_DISTANT))
    if kind in TARGETS and seen is not None:
        splits = [_at_target(opened, settings, seen)]
    elif kind in _DISTANT and seen is not None:
        splits = _distant(opened, settings, shares, seen)
    elif kind == "random":
        splits = [random_split(opened, shares, seed)]
    elif kind == "semantic":
        splits = [semantic_split(with_taxonomy(opened, taxonomy), shares, seed, level, reduction)]
    else:
        splits = [published_split(str(published), opened, order)]
    if hardness and seen is not None:
        from longshot.tasks.splits.hardness import with_hardness

        splits = with_hardness(splits, opened, seen, way, shot, shares, order)
    if out is not None:
        splits = [with_content(split, opened) for split in splits]
        for split, file in zip(splits, _files(out, kind, sweep), strict=True):
            split.save(file, force=force)
    return splits if kind == "sweep" else splits[0]


def split_kind(settings: Mapping[str, Any]) -> str:
    """Return which of KINDS the settings of ``make_split`` choose; UserError unless it is one and all settings fit."""
    chosen = [kind for kind in KINDS if settings[kind] is not None and settings[kind] is not False]
    if len(chosen) != 1:
        named = " and ".join(f"{{{kind}}}" for kind in chosen)
        raise UserError(
            f"One kind of split is needed, but {f'{named} were given' if chosen else 'none was given'}",
            f"give one of {', '.join(f'{{{kind}}}' for kind in KINDS)}",
        )
    (kind,) = chosen
    for name, kinds in _KINDS_OF.items():
        # what a kind of split does not look at is a mistake, not a wish to be passed over
        if settings[name] is not None and kind not in kinds:
            where = " and ".join(f"{{{other}}}" for other in kinds)
            raise UserError(f"{{{name}}} belongs to {where}, not to {{{kind}}}", "leave it out")
    return kind


def sweep_file(out: str | Path, divergence: float) -> Path:
    """Return where one split of a sweep goes: ``atg.json`` becomes ``atg-0.64.json``."""
    path = Path(out)
    return path.with_name(f"{path.stem}-{divergence:g}{path.suffix}")


def _files(out: str | Path | None, kind: str, sweep: Sequence[float] | None) -> list[str | Path]:
    """Return where the splits go, one by one."""
    if out is None:
        return []
    if kind != "sweep" or sweep is None:
        return [out]
    if is_stream(out):
        raise UserError(
            f"A sweep writes a file for each split, and '{out}' is none", "name one with {out:FILE}"
        )
    return [sweep_file(out, divergence) for divergence in sweep]


def _at_target(dataset: Dataset, settings: Mapping[str, Any], features: Features) -> Split:
    """Make the split at the hardness that is asked for."""
    # here, since what searches takes half a second to import
    from longshot.tasks.splits.proxy import Proxy
    from longshot.tasks.splits.target_split import Target, target_split

    target = Target(**{name: settings[name] for name in (*TARGETS, "by")})
    proxy = Proxy(features, settings["way"], settings["shot"])
    return target_split(dataset, proxy, target, settings["ratios"], settings["order"], settings["seed"])


def _distant(
    dataset: Dataset, settings: Mapping[str, Any], ratios: tuple[float, ...], features: Features
) -> list[Split]:
    """Make the splits at the divergences that are asked for."""
    from longshot.tasks.splits.build import SplitRecipe, Splitter  # SciPy takes half a second to import

    divergences = [settings["divergence"]] if settings["sweep"] is None else list(settings["sweep"])
    names = [f"{divergence:g}" for divergence in divergences]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{{sweep}} names a divergence twice, {twice}", "each has a file of its own")
    words = {name: settings[name] for name in _RECIPE if settings[name] is not None}
    recipe = SplitRecipe(ratios=ratios, seed=settings["seed"], **words)
    splitter = Splitter(dataset, features)
    splits = []
    with progress("split", total=len(divergences), unit="splits") as bar:
        for divergence in divergences:
            splits.append(splitter.split(float(divergence), recipe))
            bar.advance()
    return splits


def _features(dataset: Dataset, settings: Mapping[str, Any], needed: bool) -> Features | None:
    """Return the features that the classes are seen through; None where none is named and none is needed."""
    backbone, features = settings["backbone"], settings["features"]
    if backbone is None and features is None and not needed:
        return None
    if (backbone is None) == (features is None):
        raise UserError(
            "A split at a divergence or a target looks at features",
            "give one of {backbone:NAME} (see {list_backbones()}) and {features:FILE.npy}",
        )
    if isinstance(features, str | Path):
        from longshot.models import Features

        features = Features.load(features)
    if features is not None:
        check_made_from(features, dataset)
        return features  # type: ignore[no-any-return]
    from longshot.models import embed

    return embed(dataset, backbone, device=settings["device"])
