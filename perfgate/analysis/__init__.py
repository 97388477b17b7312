"""What uses the judge to answer other questions: plans, self-tests, calibration, drift, proposed rules."""
