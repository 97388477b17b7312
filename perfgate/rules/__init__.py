"""The rule language: files of sentences in, checked rules with their positions out.

The way of a rule file: `document` reads strict YAML and keeps positions, `validation` holds it against
`rules.schema.json`, `grammar` parses each sentence into the types of `sentence`, and `loading` puts the
`ruleset` together. `selectors`, `derived` and `conditions` say what a rule applies to; `explain` says it in words.
"""
