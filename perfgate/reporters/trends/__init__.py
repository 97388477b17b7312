"""The page of trends: every metric of a history, its levels and changes, as one file that works offline.

| module | contains |
|---|---|
| `trend_page` | the page: the conclusion, the metrics in order, the environments |
| `trend_cards` | one metric: its plot and its changes in words |
| `trend_plot` | the plot, as static SVG: axes, places of dots and changes |
| `trend_runs` | the runs of an environment: releases, changes of the machine, and their data for the script |
| `trends.css`, `trends.js` | the style, and the script for search and zoom |

Without scripts everything can be read. The script reads the numbers from the dots of the plots, so the file has each
number once.
"""
