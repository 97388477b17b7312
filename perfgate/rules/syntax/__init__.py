"""The sentence of a rule: tokens, grammar, and the tree that they make."""
