"""Measurements of a running program, written to a file that perfgate reads.

`recorder` has the public class, `spans` measure times, `counters` count CPU work, `recorded_series` checks names and
values, `writer` collects values, and `journal` writes the file. `process` finds the rank of this process, and waits for
its turn in a paired run; `watch` starts the sampler of the machine; `profiled_work` profiles steps. All of this runs
inside a user's training, so it imports only the standard library, and does not wait for the GPU, except when it closes,
for a tensor on the GPU, and around profiled steps and turns. After the start, its own errors are warnings.
"""


class RecorderError(RuntimeError):
    """The recorder cannot be used like this: the file is taken, the recording is closed, or the rank is unknown."""


class RecorderWarning(UserWarning):
    """A problem that must not stop a training: a full disk, a value that is not a valid measurement."""
