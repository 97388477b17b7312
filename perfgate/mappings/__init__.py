"""Mappings: how perfgate reads the files of a team's own tools, as `perfgate.yaml` in the rule folder says.

`document` reads that file, and `paths` and `line_patterns` are its small languages. `choose` decides which mapping
reads a data file, `record_source` finds the records in it, and `reading` makes runs of them. `suggest` proposes a
mapping.
"""
