"""How the site is built: `make docs`, offline, with warnings as errors; CONTRIBUTING.md has the conventions."""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS / "_extensions"), str(DOCS.parent / "src")]

project = "Longshot"
author = "the Longshot contributors"
copyright = f"{author}, Apache-2.0"
# Of this checkout: an editable installation may be of another one.
release = re.search(r'^version = "(.+)"', (DOCS.parent / "pyproject.toml").read_text("utf-8"), re.M)[1]  # type: ignore[index]

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
extensions += ["mathml", "command_pages", "api_pages", "listed_once"]  # our own
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_extensions"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_dmath_allow_digits = False  # two prices in a sentence are no formula
myst_heading_anchors = 4
html_math_renderer = "mathml"
myst_update_mathjax = False

autodoc_typehints = "none"  # numpydoc's tables of parameters say the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = f"Longshot {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "changelog": [], "benchmarks": [], "architecture": []}
