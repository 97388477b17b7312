"""Other answers from the judge: plans, self-tests, calibration, changes in the history, proposed rules, attacks."""
