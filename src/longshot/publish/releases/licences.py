"""A licence as others name it: an address for Croissant, an identifier for the Hugging Face Hub."""

from __future__ import annotations

# SPDX identifiers that the Hub takes in lower case; anything else is "other" there, with its own name.
_KNOWN = (
    *("Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "GPL-3.0", "LGPL-3.0", "AGPL-3.0", "Unlicense"),
    *("CC0-1.0", "CC-BY-2.0", "CC-BY-3.0", "CC-BY-4.0", "CC-BY-SA-3.0", "CC-BY-SA-4.0", "CC-BY-ND-4.0"),
    *("CC-BY-NC-2.0", "CC-BY-NC-3.0", "CC-BY-NC-4.0", "CC-BY-NC-ND-4.0", "CC-BY-NC-SA-4.0"),
)
_SPDX = {name.lower(): name for name in _KNOWN}


def licence_address(licence: str) -> str:
    """The page of a licence that SPDX lists, or the words as they are.

    >>> licence_address("cc-by-4.0"), licence_address("ask us")
    ('https://spdx.org/licenses/CC-BY-4.0.html', 'ask us')
    """
    spdx = _SPDX.get(licence.strip().lower())
    return f"https://spdx.org/licenses/{spdx}.html" if spdx else licence


def hub_licence(licence: str) -> dict[str, str]:
    """The entries that a dataset card has for a licence.

    >>> hub_licence("CC0-1.0"), hub_licence("ask us"), hub_licence("")
    ({'license': 'cc0-1.0'}, {'license': 'other', 'license_name': 'ask us'}, {})
    """
    if not licence:
        return {}
    lower = licence.strip().lower()
    return {"license": lower} if lower in _SPDX else {"license": "other", "license_name": licence}
