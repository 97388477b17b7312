"""The sentence of a rule: its tokens, its grammar, and the parsed result."""
