"""The report as one page of HTML that needs no network, no script and no mouse: see `perfgate.reporters.html.page`."""

from __future__ import annotations

from perfgate.reporters.html.page import render

__all__ = ["render"]
