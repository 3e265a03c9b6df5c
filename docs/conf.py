"""Sphinx configuration; build with ``make docs``."""

import os
import re
import sys
from pathlib import Path
from pydoc import locate

from pydantic import BaseModel
from sphinx.application import Sphinx

from clocs import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "clocs"
author = "The clocs contributors"
project_copyright = author
version = release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "_templates", "**/.ipynb_checkpoints", "tutorials/ptbxl"]  # included by tutorials
templates_path = ["_templates"]

# Tutorials run in a temporary folder each. An error in a cell is an error of the build.
nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = -1
nb_merge_streams = True
os.environ.pop("MPLBACKEND", None)  # kernels choose the one that draws into pages
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

highlight_language = "none"  # a block without a language is a shell command or a sketch
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]

toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80  # longer ones get a line for each argument
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "exclude-members": "model_config, __new__, __init__",
    # All but those of these classes.
    "inherited-members": "ABC, BaseModel, Dataset, Exception, Mapping, Module, Protocol, tuple, "
    "BaseEstimator, TransformerMixin, _MetadataRequester, _SetOutputMixin",
}

LIMITS = re.compile(r"(?:~?typing\.)?Annotated\[([^,]+), FieldInfo\(.*?\]\)\]")

html_math_renderer = "mathml"  # no script: equations are drawn by the browser, offline as well
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["clocs.css"]
html_favicon = "images/favicon.svg"
html_title = f"clocs {release}"
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_center": [],  # all pages are listed at the left
    "logo": {"image_light": "images/logo-light.svg", "image_dark": "images/logo-dark.svg", "alt_text": "clocs"},
}
repository_url = os.environ.get("CLOCS_REPOSITORY_URL", "").rstrip("/")  # see hatch_build.py
if repository_url:
    html_theme_options |= {"use_edit_page_button": True, "secondary_sidebar_items": ["page-toc", "edit-this-page"]}
    html_context = {
        "edit_page_url_template": repository_url + "/edit/main/docs/{{ file_name }}",
        "edit_page_provider_name": "the repository",
    }
documentation_url = os.environ.get("CLOCS_DOCS_URL", "").rstrip("/")  # of the site with all versions, see make_site.py
if documentation_url:
    html_theme_options |= {
        "switcher": {"json_url": f"{documentation_url}/versions.json", "version_match": release},
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
        "check_switcher": False,  # the list is written when the site is
    }
html_sidebars = {"**": ["all-pages"]}
html_show_sourcelink = False


def shorten_signature(
    app: Sphinx, what: str, name: str, item: object, options: object, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Leave limits of values out of a signature, and all of it out if the fields are listed with their defaults."""
    if isinstance(item, type) and (issubclass(item, BaseModel) or "<factory>" in (signature or "")):
        return "", None
    return (LIMITS.sub(r"\1", signature), returns) if signature else None


def complete_attribute(app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]) -> None:
    """Add a configuration's default. Break the first line after a colon, or napoleon takes it for a type."""
    if what != "attribute" or not lines:
        return
    before, colon, after = lines[0].partition(": ")
    lines[:1] = [before + colon.strip(), after] if colon else [before]
    model, _, field = name.rpartition(".")
    owner = locate(model)
    if isinstance(owner, type) and issubclass(owner, BaseModel) and not owner.model_fields[field].is_required():
        lines += ["", f"Default: ``{owner.model_fields[field].get_default(call_default_factory=True)!r}``"]


def setup(app: Sphinx) -> None:
    """Write generated pages before the others are read, render equations as MathML, and check links at the end."""
    from check_links import check_site
    from math_markup import visit_block, visit_inline
    from method_figures import draw_method_figures
    from reference_pages import write_reference_pages
    from synthetic_gallery import make_gallery

    app.connect("builder-inited", lambda app: make_gallery(Path(app.srcdir)))
    app.connect("builder-inited", lambda app: draw_method_figures(Path(app.srcdir)))
    app.connect("builder-inited", lambda app: write_reference_pages(Path(app.srcdir, "reference")))
    # After the theme has copied its logos.
    app.connect("build-finished", lambda app, error: None if error else check_site(Path(app.outdir)), priority=900)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", complete_attribute, priority=400)  # before napoleon
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
