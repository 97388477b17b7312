#!/usr/bin/env bash
# Makes everything in runs/ and baselines/: five profiled runs, one after another, and the baseline of the first three.
# Needs Python with perfgate and torch (the kept runs: torch 2.13.0 on the CPU).
# Usage: ./make_runs.sh
set -euo pipefail
cd "$(dirname "$0")"
rm -rf runs baselines
for name in main-1 main-2 main-3 change; do
    python train.py "runs/$name"
done
python train.py runs/slow --slowdown 1
perfgate() { python -m perfgate "$@"; }
perfgate baseline approve runs/main-1 --reason "first baseline" --by "the perfgate authors"
perfgate baseline add runs/main-2 --by "the perfgate authors"
perfgate baseline add runs/main-3 --by "the perfgate authors"
