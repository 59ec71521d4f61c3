"""Formulas as MathML, which every current browser draws itself: no script, no font, nothing fetched."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def _formula(translator: HTML5Translator, node: nodes.Element, as_block: bool) -> None:
    """A formula that cannot be written so is a warning with its page, and so an error of the build."""
    try:
        translator.body.append(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("the formula %r cannot be MathML: %s", node.astext(), error, location=node)
    raise nodes.SkipNode


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    _formula(translator, node, as_block=False)


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    _formula(translator, node, as_block=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
