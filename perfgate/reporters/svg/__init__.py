"""Pictures as SVG text: pure functions from numbers to elements, for every page of perfgate.

| module | contains |
|---|---|
| `elements` | elements of SVG and HTML, with every text and attribute escaped |
| `scales` | linear and logarithmic scales, and the ends of an axis |
| `ticks` | round numbers on an axis, in the unit in which people read them |
| `paths` | lines, steps, dots and vertical marks as the text of a path |
| `axes` | grid lines and labels |

A picture has no colours: it has classes, and the style sheet of its page has their colours, for light and for dark.
Sizes are in pixels. A width may be `100%`, so that a picture fits any page, and its text keeps its size.
"""
