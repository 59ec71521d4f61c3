"""Kinds of causes: stable names, and what is said of a support with less or more of a measure.

The kind of a finding from an annotated attribute is that attribute's name.
"""

from __future__ import annotations

from typing import NamedTuple

from longshot.diagnosis.alterations import ALTERED


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
    """The kind of cause that an attribute speaks for; its own name where it is neither measured nor an alteration.

    >>> kind_of("sharpness"), kind_of("blurred"), kind_of("viewpoint")
    ('blur', 'blur', 'viewpoint')
    """
    if attribute in ALTERED:
        return ALTERED[attribute].kind
    return MEASURES[attribute].kind if attribute in MEASURES else attribute
