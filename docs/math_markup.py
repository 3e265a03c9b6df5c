"""Render equations as MathML, which browsers draw without a script."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.writers.html5 import HTML5Translator


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write an equation within a sentence."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write an equation on a line of its own, with its number."""
    number = f'<span class="eqno">({node["number"]})</span>' if node["number"] else ""
    equation = tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="equation"{_anchor(node)}>{equation}{number}</div>\n')
    raise nodes.SkipNode


def _anchor(node: nodes.math_block) -> str:
    return f' id="{node["ids"][0]}"' if node["ids"] else ""
