"""The posterior with stored runs of the ends, if the machine is the one that they were measured on.

Another machine is a second hypothesis: under it, the stored runs are anywhere around the new ones. The probability
density of the stored runs, given all new measurements, tells the two apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from perfgate.bisect.measurements import Measurement, Model
from perfgate.bisect.posterior import Posterior, posterior

#: The standard deviation of another machine's level, and the odds of another machine.
_OTHER, _ODDS = 0.1, 0.25
#: Stored runs are used while the machine is this probable to be the same.
_SAME = 0.75


def agreed_posterior(model: Model, measurements: Sequence[Measurement]) -> Posterior:
    """Return `posterior`, and without the stored runs if the machine is probably another one now."""
    alone = posterior(replace(model, stored=()), measurements)
    if not model.stored:
        return alone
    found = posterior(model, measurements)
    same = found.log_density - alone.log_density
    other = len(model.stored) * -math.log(_OTHER * math.sqrt(2 * math.pi)) + math.log(_ODDS)
    return found if 1 / (1 + math.exp(min(other - same, 700.0))) >= _SAME else alone
