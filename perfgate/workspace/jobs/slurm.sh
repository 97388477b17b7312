#!/bin/bash
# TODO: the options of your cluster. `sbatch --wait` exits with the answer.
#SBATCH --job-name=perf-gate --gres=gpu:1 --exclusive --time=01:00:00 --output=perf-gate-%j.log
<SAYS>
<SCRIPT>
