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
highlight_language = "text"
smartquotes = False  # `--json` is an option, not a dash
html_theme = "furo"
html_title = "perfgate"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
