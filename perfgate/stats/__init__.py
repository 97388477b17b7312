"""Statistics of runs: floats in, estimates out. Nothing here knows rules or verdicts, and nothing does I/O.

From a run to an estimate, in this order:

* `steady`         the steady part of a run, without its warm-up
* `statistics`     the statistics by name, with their noise within the run; `measure_run` computes one of a run
* `moderated`      a change between runs: the moderated t on logarithms, and which change the next runs can detect
* `paired_t`       a change between runs that were measured in pairs
* `margin`         the tolerated change on the scale of logarithms, with which an interval is compared
* `sequential`     how much of an error rate each of several looks at growing data may use
* `bounds`         confidence bounds of percentiles and means for a limit, and how many values decide it
* `history`        the noise between runs, from a history of runs
* `change_points`  where the level of a history of runs changed; its steps 1 to 4 are in `change_point_search`
* `distributions`  quantiles, autocorrelation and a correction for many comparisons, which the other modules use

There are no random numbers: the same input gives the same bytes.
"""
