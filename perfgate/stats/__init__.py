"""Statistics of runs: floats in, estimates out; no domain types, no I/O, and no outcome is decided here.

From a run to an estimate, in this order:

* `warmup`           the steady part of a run
* `autocorrelation`  how many of its values count as independent
* `statistics`       the statistics by name, each with its noise within the run
* `describe`         one run as a value, an effective size and a variance: `measure_run`
* `moderated`        a change between runs: the moderated t on logarithms
* `pairs`            a change between runs that were made in pairs
* `limits`           intervals of percentiles and means against a bound
* `prior`            run-to-run noise from a history of runs
* `planning`         which change the next runs would show, and how many settle a question
* `drift`            a slow creep along a history of runs, for a warning
* `multiple`         many comparisons at once
* `modes`            two modes in one run, for a warning
* `quantiles`        the distributions, from `scipy.special` alone, and the sample quantile

The only special functions are those of `scipy.special`: `scipy.stats` takes half a second to import and holds
the same distributions. There are no random numbers: the same input gives the same bytes.
"""
