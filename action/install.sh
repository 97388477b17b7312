#!/usr/bin/env bash
# Install perfgate from the commit of the action into a new virtual environment outside of the workspace. Isolated (-I):
# Python imports no file of the workspace as a module.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if ! command -v "$PYTHON" >/dev/null; then
    echo "::error::${PYTHON//[^A-Za-z0-9._\/-]/?} is not installed: use actions/setup-python first, or the input python"
    exit 2
fi
if [[ ! $EXTRAS =~ ^[a-z0-9,-]*$ ]]; then
    echo "::error::the input extras is a list of names separated by commas, such as gpu,html"
    exit 2
fi
[ -z "$HTML" ] || EXTRAS="${EXTRAS:+$EXTRAS,}html"
venv=$(mktemp -d "${RUNNER_TEMP:-/tmp}/perfgate-XXXXXX")
"$PYTHON" -I -m venv "$venv"
"$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check "$root${EXTRAS:+[$EXTRAS]}"
echo "python=$venv/bin/python" >>"$GITHUB_OUTPUT"
