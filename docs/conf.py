"""Sphinx's settings: ``python -m sphinx -W -b html docs build/docs`` writes the site."""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]
os.environ["OXINP_BACKEND"] = "host"

import pictures  # noqa: E402 - found by the lines above
import reference_pages  # noqa: E402

from oxinp._version import __version__  # noqa: E402

project = "oxinp"
author = "The oxinp developers"
copyright = author
version = release = __version__

extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_parser", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc's sections say them
numpydoc_show_class_members = False

html_theme = "alabaster"
html_title = "oxinp"
html_theme_options = {
    "description": "NumPy on the GPU by changing one import",
    "fixed_sidebar": True,
    "page_width": "75em",
    "sidebar_width": "17em",
}


def setup(app):
    """Have the pages and pictures that are made from tables and programs made before anything is read."""
    app.connect("builder-inited", lambda _: (reference_pages.write(), pictures.write()))
