"""Configuration of Sphinx: `python -m sphinx -W --keep-going -b html docs docs/_build` builds the site."""

from __future__ import annotations

from perfgate import __version__

project = "perfgate"
author = "The perfgate authors"
release = __version__
extensions = ["myst_parser"]
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
