#!/usr/bin/env bash
# Installs perfgate from the commit that the action was taken from, into a virtual environment of its own outside of
# the workspace. Isolated (-I), so that no file of the workspace is taken for a module of Python's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if ! command -v "$PYTHON" >/dev/null; then
    echo "::error::there is no ${PYTHON//[^A-Za-z0-9._\/-]/?} here: use actions/setup-python first, or the input python"
    exit 2
fi
if [[ ! $EXTRAS =~ ^[a-z0-9,-]*$ ]]; then
    echo "::error::the input extras holds names with commas between them, such as gpu,html"
    exit 2
fi
[ -z "$HTML" ] || EXTRAS="${EXTRAS:+$EXTRAS,}html"
venv=$(mktemp -d "${RUNNER_TEMP:-/tmp}/perfgate-XXXXXX")
"$PYTHON" -I -m venv "$venv"
"$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check "$root${EXTRAS:+[$EXTRAS]}"
echo "python=$venv/bin/python" >>"$GITHUB_OUTPUT"
