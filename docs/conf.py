"""How Sphinx builds these pages; `python -m sphinx -W --keep-going -b html docs docs/_build` does."""

from __future__ import annotations

import sys
from pathlib import Path

from perfgate import __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "perfgate"
author = "The perfgate authors"
release = __version__
extensions = ["myst_parser", "references"]
exclude_patterns = ["_build"]
nitpicky = True
myst_heading_anchors = 3
#: What code blocks may be marked as; a word that Pygments does not know is a warning.
highlight_language = "text"
html_theme = "furo"
html_title = "perfgate"
html_show_sphinx = False
html_copy_source = False
