"""Configuration of the site: sphinx-build -W docs site (see CONTRIBUTING.md)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from ldpflow import __version__

ROOT = str(Path(__file__).parents[1])
sys.path.insert(0, ROOT)
# Pages run `ldpflow` from the folder of this interpreter. COLUMNS is the width of a page.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
os.environ["COLUMNS"] = "88"

project = "ldpflow"
author = "The ldpflow authors"
copyright = "2026, the ldpflow authors"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "numpydoc",
]
exclude_patterns = ["site", "**/.ipynb_checkpoints"]

# Every build runs the tutorials, each in a folder of its own. An error ends the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_merge_streams = True

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "model_config, model_post_init, count, index"}
numpydoc_show_class_members = False

highlight_language = "none"  # formulas and commands
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wrap.css"]
html_title = f"ldpflow {version}"
html_show_sourcelink = False
html_copy_source = False


def setup(app: Any) -> None:
    """Generate the reference before pages are read."""
    from docs.reference import write_pages

    write_pages()
