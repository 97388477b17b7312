"""Other answers from the judge: plans, self-tests, calibration, drift, proposed rules."""
