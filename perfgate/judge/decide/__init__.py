"""From questions to answers: `outcome.decide` is the only place where an outcome is settled."""
