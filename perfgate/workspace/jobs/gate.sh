set -eu
venv="<VENV>/perfgate"
python3 -m venv "$venv"
"$venv/bin/pip" install -q "perfgate[gpu] @ git+https://github.com/OWNER/perfgate@COMMIT"
git fetch -q origin "refs/heads/<TARGET>"
policy=$(git rev-parse --verify "FETCH_HEAD^{commit}")
"$venv/bin/perfgate" run <PAIRED>--policy-ref "$policy" --junit perfgate.xml --json perfgate.json
