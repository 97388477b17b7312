"""The rule language: files of sentences in, checked rules with their positions out.

The way of a rule file: `document` reads strict YAML and keeps positions, `validation` holds it against
`rules.schema.json`, `grammar` (over `tokens` and `cursor`) parses each sentence into the types of `sentence`, and
`loading` puts the `ruleset` together. `conditions` is what `when` asks, `evaluation` computes a rule's subject on a
run, and `explain` says a rule in words.
"""
