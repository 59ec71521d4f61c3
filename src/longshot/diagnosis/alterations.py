"""Alterations of pictures, as hypotheses about causes, and the signatures that they leave in descriptors.

An alteration is what a cause would do to the pixels, in weak and strong forms. It is made on some pictures of the
dataset to learn what it does to the descriptors, and on images that lack it, so that nothing but the cause differs.

A signature tells how much each picture looks as if an alteration had been done to it.
Let x be the descriptors of a picture and δ_A the mean change of them under alteration A, learnt on pictures of the
dataset. Within classes x varies with covariance Σ; pictures also answer to an alteration differently, with covariance
Γ_A. With M = Σ + ½ mean_A Γ_A, shrunk to its diagonal, the score of a picture

    s_A(x) = δ_A' M⁻¹ x / √(δ_A' M⁻¹ δ_A)

is the best linear evidence for A (Fisher's discriminant): what moves x along δ_A raises it, and what A shares with
another alteration B counts for both in proportion to

    ρ_AB = δ_A' M⁻¹ δ_B / √(δ_A' M⁻¹ δ_A · δ_B' M⁻¹ δ_B).

A shift d of the support against the queries that is due to A alone raises s_A by ‖d‖ and s_B by ρ_AB ‖d‖. So the
alteration whose score is shifted most is the one that explains the others, and z_B − ρ_AB z_A is what it leaves.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from PIL.Image import Resampling, Transpose

from longshot.base import Floats, Ints
from longshot.diagnosis.attribute_gaps import AttributeColumn
from longshot.diagnosis.descriptors import TURNS, as_shares

Change: TypeAlias = Callable[[Image.Image, float, np.random.Generator], Image.Image]
_Pixels: TypeAlias = NDArray[np.float32]  # [H, W, 3] in 0 … 1


class Alteration(NamedTuple):
    """One alteration: ``words`` are said of a support that has it, ``strengths`` are its forms, from weak to strong."""

    kind: str
    words: str
    strengths: tuple[float, ...]
    change: Change


def alter(image: Image.Image, name: str, strength: float, generator: np.random.Generator) -> Image.Image:
    """Apply the alteration ``name`` to an RGB image; what is random about it comes from ``generator``.

    >>> import numpy as np
    >>> grey = alter(Image.new("RGB", (8, 8), (200, 100, 0)), "grey", 0.0, np.random.default_rng(0))
    >>> len(set(grey.getpixel((0, 0))))
    1
    """
    return ALTERATIONS[name].change(image, strength, generator)


def _pixels(image: Image.Image) -> _Pixels:
    return as_shares(np.asarray(image))


def _image(pixels: _Pixels) -> Image.Image:
    return Image.fromarray((np.clip(pixels, 0, 1) * 255).round().astype(np.uint8))


def _blur(image: Image.Image, share: float, _: np.random.Generator) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(share * image.width))


def _reduce(smooth: Resampling, grow: Resampling | None = None) -> Change:
    def change(image: Image.Image, factor: float, _: np.random.Generator) -> Image.Image:
        size = (max(1, round(image.width / factor)), max(1, round(image.height / factor)))
        return image.resize(size, smooth).resize(image.size, smooth if grow is None else grow)

    return change


def _noise(image: Image.Image, sigma: float, generator: np.random.Generator) -> Image.Image:
    pixels = _pixels(image)
    return _image(pixels + generator.normal(0, sigma, pixels.shape).astype(np.float32))


def _light(image: Image.Image, factor: float, _: np.random.Generator) -> Image.Image:
    return image.point([min(255, round(value * factor)) for value in range(256)] * 3)


def _contrast(image: Image.Image, factor: float, generator: np.random.Generator) -> Image.Image:
    """Scale the contrast around the mean of the picture, or around the middle of the scale."""
    pixels = _pixels(image)
    middle = np.float32(pixels.mean() if generator.random() < 0.5 else 0.5)
    return _image(middle + (pixels - middle) * np.float32(factor))


def _colour(image: Image.Image, factor: float, _: np.random.Generator) -> Image.Image:
    grey = image.convert("L").convert("RGB")
    return Image.blend(grey, image, factor)


def _tint(channel: int) -> Change:
    def change(image: Image.Image, factor: float, _: np.random.Generator) -> Image.Image:
        table = [list(range(256))] * 3
        table[channel] = [round(value * factor) for value in range(256)]
        return image.point([value for row in table for value in row])

    return change


def _compress(image: Image.Image, quality: float, _: np.random.Generator) -> Image.Image:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=round(quality))
    return Image.open(stream).convert("RGB")


def _turn(how: Transpose) -> Change:
    return lambda image, _, __: image.transpose(how).resize(image.size)


def _zoom(smooth: Resampling) -> Change:
    def change(image: Image.Image, factor: float, _: np.random.Generator) -> Image.Image:
        x, y = image.width * (1 - 1 / factor) / 2, image.height * (1 - 1 / factor) / 2
        return image.resize(image.size, smooth, box=(x, y, image.width - x, image.height - y))

    return change


def _shrink(image: Image.Image, factor: float, generator: np.random.Generator) -> Image.Image:
    frame = Image.new("RGB", image.size, _plain(generator))
    size = (max(1, round(image.width * factor)), max(1, round(image.height * factor)))
    small = image.resize(size, Resampling.BICUBIC)
    frame.paste(small, ((image.width - size[0]) // 2, (image.height - size[1]) // 2))
    return frame


def _shift(right: int, down: int) -> Change:
    def change(image: Image.Image, share: float, generator: np.random.Generator) -> Image.Image:
        """Shift the picture; the bared part is black, or repeats the last line."""
        x, y = round(share * image.width) * right, round(share * image.height) * down
        if generator.random() < 0.5:
            moved = Image.new("RGB", image.size)
            moved.paste(image, (x, y))
            return moved
        rows = np.clip(np.arange(image.height) - y, 0, image.height - 1)
        columns = np.clip(np.arange(image.width) - x, 0, image.width - 1)
        return Image.fromarray(np.asarray(image)[rows[:, None], columns])

    return change


def _wrap(right: int, down: int) -> Change:
    """Make a change that shifts the picture; what leaves on one side comes back on the other."""

    def change(image: Image.Image, share: float, _: np.random.Generator) -> Image.Image:
        steps = (round(share * image.height) * down, round(share * image.width) * right)
        return Image.fromarray(np.roll(np.asarray(image), steps, (0, 1)))

    return change


def _cover(image: Image.Image, share: float, generator: np.random.Generator) -> Image.Image:
    """Cover a place near the centre by a plain square, black more often than not."""
    side = round(share * min(image.size))
    x, y = (round((length - side) / 2 + generator.uniform(-0.08, 0.08) * length) for length in image.size)
    covered = image.copy()
    covered.paste((0, 0, 0) if generator.random() < 0.6 else _plain(generator), (x, y, x + side, y + side))
    return covered


def _cut_out(image: Image.Image, share: float, generator: np.random.Generator) -> Image.Image:
    """Fill everything outside a central ellipse with one colour: the object on another background."""
    rows, columns = np.mgrid[-1 : 1 : image.height * 1j, -1 : 1 : image.width * 1j]
    inside = (rows**2 + columns**2 <= share**2)[..., None]
    colour = generator.integers(0, 256, 3).astype(np.uint8)
    return Image.fromarray(np.where(inside, np.asarray(image), colour))


def _plain(generator: np.random.Generator) -> tuple[int, int, int]:
    level = int(generator.choice([0, 128, 128, 255]))
    return level, level, level


_LOWER = "has a lower resolution than"
_CAST = "has another colour cast (less {}) than"
_MOVED = "is shifted {} against"
_WRAPPED = "is shifted {}, around the border, against"
_CLOSER = "is cropped closer than"
_FACTORS = (1.5, 2, 2.5, 3, 4, 5, 6, 8)
_ZOOMS = (1.25, 1.5, 1.75, 2, 2.5, 3)
_SHIFTS = (0.15, 0.35)
# A name up to its slash is an attribute: how much a picture looks as if this had been done to it.
ALTERATIONS: dict[str, Alteration] = {
    "blurred": Alteration(
        "blur", "is blurrier than", (0.005, 0.007, 0.0095, 0.013, 0.018, 0.024, 0.033, 0.045, 0.06), _blur
    ),
    "low_resolution": Alteration("resolution", _LOWER, _FACTORS, _reduce(Resampling.BICUBIC)),
    "low_resolution/soft": Alteration("resolution", _LOWER, _FACTORS, _reduce(Resampling.BILINEAR)),
    "low_resolution/crisp": Alteration("resolution", _LOWER, _FACTORS, _reduce(Resampling.LANCZOS)),
    "pixelated": Alteration("resolution", _LOWER, (2, 4, 8), _reduce(Resampling.BOX, Resampling.NEAREST)),
    "noisy": Alteration("noise", "is noisier than", (0.04, 0.1), _noise),
    "darkened": Alteration("brightness", "is darker than", (0.7, 0.4), _light),
    "brightened": Alteration("brightness", "is brighter than", (1.3, 1.8), _light),
    "flattened": Alteration("contrast", "has less contrast than", (0.7, 0.4), _contrast),
    "high_contrast": Alteration("contrast", "has more contrast than", (1.3, 1.8), _contrast),
    "grey": Alteration("saturation", "is paler than", (0.4, 0.0), _colour),
    "colourful": Alteration("saturation", "is more colourful than", (1.4, 2.0), _colour),
    "less_red": Alteration("tint", _CAST.format("red"), (0.85, 0.6), _tint(0)),
    "less_green": Alteration("tint", _CAST.format("green"), (0.85, 0.6), _tint(1)),
    "less_blue": Alteration("tint", _CAST.format("blue"), (0.85, 0.6), _tint(2)),
    "compressed": Alteration("compression", "is more compressed than", (25, 15, 8), _compress),
    "turned_left": Alteration("orientation", "is turned left against", (1,), _turn(Transpose.ROTATE_90)),
    "turned_right": Alteration("orientation", "is turned right against", (1,), _turn(Transpose.ROTATE_270)),
    "upside_down": Alteration("orientation", "is upside down against", (1,), _turn(Transpose.ROTATE_180)),
    "mirrored": Alteration("mirroring", "is mirrored against", (1,), _turn(Transpose.FLIP_LEFT_RIGHT)),
    "zoomed": Alteration("crop", _CLOSER, _ZOOMS, _zoom(Resampling.BICUBIC)),
    "zoomed/soft": Alteration("crop", _CLOSER, _ZOOMS, _zoom(Resampling.BILINEAR)),
    "shrunk": Alteration("scale", "is smaller, in a frame, than", (0.7, 0.4), _shrink),
    "shifted_right": Alteration("position", _MOVED.format("right"), _SHIFTS, _shift(1, 0)),
    "shifted_left": Alteration("position", _MOVED.format("left"), _SHIFTS, _shift(-1, 0)),
    "shifted_down": Alteration("position", _MOVED.format("down"), _SHIFTS, _shift(0, 1)),
    "shifted_up": Alteration("position", _MOVED.format("up"), _SHIFTS, _shift(0, -1)),
    "wrapped_sideways": Alteration("position", _WRAPPED.format("sideways"), (0.3, -0.3), _wrap(1, 0)),
    "wrapped_upright": Alteration("position", _WRAPPED.format("up or down"), (0.3, -0.3), _wrap(0, 1)),
    "covered": Alteration("occlusion", "is partly covered, unlike", (0.25, 0.45), _cover),
    "cut_out": Alteration("background", "has a plainer background than", (0.95, 0.7), _cut_out),
}
ALTERED: dict[str, Alteration] = {
    name: alteration for name, alteration in ALTERATIONS.items() if "/" not in name
}
FORMS: tuple[tuple[str, float], ...] = tuple(
    (name, strength) for name, alteration in ALTERATIONS.items() for strength in alteration.strengths
)
FORM_ATTRIBUTES: tuple[str, ...] = tuple(name.partition("/")[0] for name, _ in FORMS)


_ROWS = 20_000  # from which covariances are estimated
_SHRINK = 0.1  # share of the diagonal in M, and more where pictures are few


@dataclass(frozen=True, eq=False)
class Signatures:
    """The F forms of all alterations (``FORMS``) as directions in the space of descriptors.

    Attributes
    ----------
    weights : array [D, F]
        Score of a picture: its descriptors times these.
    overlap : array [F, F]
        ρ: how much the score of one form moves when another shifts pictures.
    length : array [F]
        How much a form raises its own score, on average.
    effects : mapping
        Named measure → mean change under each form [F], in standard deviations within classes.
    root : array [D, D]
        A shift of descriptors times this has the length ‖d‖ = √(d' M⁻¹ d).
    chance : float
        Mean of ‖d‖² between two pictures of a class, halved: what the difference of two means has by chance, times
        the images it is worth.
    """

    weights: Floats
    overlap: Floats
    length: Floats
    effects: Mapping[str, Floats]
    root: Floats
    chance: float

    def columns(self, descriptors: NDArray[np.float32]) -> list[AttributeColumn]:
        """Build a column per alteration: its forms' mean score, for pictures with descriptors [N, D]."""
        weights = np.stack(
            [self.weights[:, np.array(FORM_ATTRIBUTES) == name].mean(1) for name in ALTERED], axis=1
        )
        scores = descriptors.astype(np.float64) @ weights
        return [AttributeColumn(name, None, scores[:, number]) for number, name in enumerate(ALTERED)]


def learn_signatures(
    numbers: NDArray[np.float32],
    measures: Sequence[str],
    labels: NDArray[np.int32],
    *,
    reference: Ints,
    sampled: Ints,
    altered: NDArray[np.float32],
) -> Signatures:
    """Learn the signatures of alterations from a dataset's own pictures.

    Parameters
    ----------
    numbers : array [N, J + D]
        J named measures, then descriptors, of all images.
    measures : sequence [J]
        Their names.
    labels : ints [N]
        Class of each image.
    reference : ints [R]
        Rows of the images that show how pictures vary.
    sampled : ints [m]
        Rows of the images that were altered.
    altered : array [F, m, J + D]
        Measures and descriptors of the altered images.
    """
    named = len(measures)
    rows = reference[:: max(1, len(reference) // _ROWS)]
    some = numbers[rows].astype(np.float64)
    within = _centred(some, labels[rows])
    with np.errstate(invalid="ignore"):
        spread = np.sqrt(np.nansum(within**2, 0) / np.maximum(np.isfinite(within).sum(0) - 1, 1))
    spread[~(spread > 1e-12)] = np.inf  # what never varies says nothing
    change = (altered - numbers[sampled].astype(np.float64)) / spread
    answers = change[:, :, named:]
    moves = _shrunk(answers)
    mean = some[:, named:].mean(0)
    for form, (name, _) in enumerate(FORMS):
        if name in TURNS:  # from all pictures, not only from those that were turned
            moves[form] = (mean[TURNS[name]] - mean) / spread[named:]
    pictures = within[:, named:] / spread[named:]
    metric = _metric(pictures, answers)
    weights = np.linalg.solve(metric, moves.T)
    root = np.linalg.inv(np.linalg.cholesky(metric)).T
    inner = moves @ weights
    length = np.sqrt(np.maximum(np.diag(inner), 1e-12))
    effects = {name: change[:, :, number].mean(1) for number, name in enumerate(measures)}
    return Signatures(
        weights / length / spread[named:, None],
        inner / np.outer(length, length),
        length,
        effects,
        root / spread[named:, None],
        float(((pictures @ root) ** 2).sum() / max(1, len(pictures) - 1)),
    )


def _shrunk(answers: Floats) -> Floats:
    """Average [F, m, D] over pictures to [F, D], drawn to 0 by t² / (1 + t²) where they disagree."""
    mean = answers.mean(1)
    error = answers.var(1, ddof=1) / answers.shape[1]
    shrunk: Floats = mean * mean**2 / np.maximum(mean**2 + error, 1e-12)
    return shrunk


def _centred(numbers: Floats, labels: NDArray[np.int32]) -> Floats:
    """Subtract their class's means from numbers; what is not known stays NaN."""
    finite = np.isfinite(numbers)
    size = int(labels.max()) + 1
    total, count = np.zeros((size, numbers.shape[1])), np.zeros((size, numbers.shape[1]))
    np.add.at(total, labels, np.where(finite, numbers, 0.0))
    np.add.at(count, labels, finite)
    centred: Floats = numbers - (total / np.maximum(count, 1))[labels]
    return centred


def _metric(within: Floats, changes: Floats) -> Floats:
    """Compute M from standardised descriptors [N, D] and changes [A, m, D]; few pictures make it diagonal."""
    covariance = within.T @ within / max(1, len(within) - 1)
    apart = changes - changes.mean(1, keepdims=True)
    answers = np.einsum("amd,ame->de", apart, apart) / max(1, len(changes) * (changes.shape[1] - 1))
    full = covariance + answers / 2
    size = full.shape[0]
    share = _SHRINK + (1 - _SHRINK) * size / (size + len(within))
    shrunk: Floats = (1 - share) * full + share * np.diag(np.diag(full)) + 1e-9 * np.eye(size)
    return shrunk


class Measure(NamedTuple):
    """A named measure: the kind of cause it speaks for, and what is said of a support with less or more of it."""

    kind: str
    less: str
    more: str


MEASURES: dict[str, Measure] = {
    "brightness": Measure("brightness", "is darker than", "is brighter than"),
    "contrast": Measure("contrast", "has less contrast than", "has more contrast than"),
    "saturation": Measure("saturation", "is paler than", "is more colourful than"),
    "hue": Measure("tint", "has another hue than", "has another hue than"),
    "red_cast": Measure("tint", "is less red than", "is redder than"),
    "blue_cast": Measure("tint", "is less blue than", "is bluer than"),
    "sharpness": Measure("blur", "is blurrier than", "is sharper than"),
    "edges": Measure("blur", "has fewer edges than", "has more edges than"),
    "noise": Measure("noise", "is less noisy than", "is noisier than"),
    "resolution": Measure("resolution", "has less fine detail than", "has more fine detail than"),
    "compression": Measure("compression", "shows less of JPEG's grid than", "shows more of JPEG's grid than"),
    "object_scale": Measure("scale", "shows smaller objects than", "shows larger objects than"),
    "frame": Measure("scale", "has less of a plain rim than", "has more of a plain rim than"),
    "off_centre_x": Measure("position", "lies further left than", "lies further right than"),
    "off_centre_y": Measure("position", "lies higher than", "lies lower than"),
    "plain_centre": Measure("occlusion", "has a busier centre than", "has a plainer centre than"),
    "things": Measure("number", "shows fewer things than", "shows more things than"),
    "background": Measure("background", "has a plainer background than", "has a busier background than"),
    "background_light": Measure(
        "background", "has a darker background than", "has a brighter background than"
    ),
    "upper_light": Measure("orientation", "is lit less from above than", "is lit more from above than"),
    "upright_edges": Measure("orientation", "has fewer upright edges than", "has more upright edges than"),
    "aspect": Measure("aspect", "is taller than", "is wider than"),
}


def kind_of(attribute: str) -> str:
    """Name the kind of cause of an attribute; its own name if it is neither measured nor an alteration.

    >>> kind_of("sharpness"), kind_of("blurred"), kind_of("viewpoint")
    ('blur', 'blur', 'viewpoint')
    """
    if attribute in ALTERED:
        return ALTERED[attribute].kind
    return MEASURES[attribute].kind if attribute in MEASURES else attribute
