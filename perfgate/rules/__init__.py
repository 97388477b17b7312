"""The rule language: rule files in, checked rules with their positions out.

`load` reads files of strict YAML, each with `rule_file`. `validate` checks them against `rules.schema.json`,
`syntax.grammar` (on `syntax.subject` and `syntax.cursor`) parses each sentence into the types of `syntax.sentence`, and
`ruleset` has the result. `explain` puts a rule into words, `difference` compares two rulesets, and `write` writes rules
as YAML. `repair` proposes a sentence for a wrong one, and finds metrics that no stored run has.
"""
