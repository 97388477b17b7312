"""What a script does with the exit code of a gate, case by case; `tests/attacks/test_attack_command.py` asks bash."""

from __future__ import annotations

import pytest

from perfgate.analysis import scripts

GATE = "perfgate check x"
SCRIPTS = [
    # the script and the shell; what drops the exit code
    (f"{GATE}\necho done", "", None),
    (f"{GATE}\necho done", "bash {0}", scripts._DROPS),
    (f"set -e\n{GATE}\necho done", "bash {0}", None),
    (f"set -o errexit\n{GATE}\necho done", "bash {0}", None),
    (f"set -euo pipefail\n{GATE} | tee log", "bash {0}", None),
    (f"set -o pipefail\n{GATE} | tee log", "", None),
    (f"set -o pipefail\nset +o pipefail\n{GATE} | tee log", "", scripts._PIPE),
    (f"trap 'exit 0' EXIT\n{GATE}", "", scripts._DROPS),
    # other shells: nothing is known of those that are not of bash
    (f"{GATE}\necho done", "sh", None),
    (f"{GATE}\necho done", "bash", None),
    (f"{GATE}\necho done", "pwsh", None),
    (f"{GATE} | cat", "pwsh", None),
    # what comes after the gate, and after the loop around it
    (f"{GATE}\nexit $?", "bash {0}", None),
    (f"{GATE} & wait $!", "", None),
    (f"{GATE} &", "", scripts._DROPS),
    (f"for f in a b; do {GATE}; done || true", "", scripts._DROPS),
    # after `&&`, `set -e` does not stop the script, and a pipe has only later commands
    (f"{GATE} && echo green\necho done", "", scripts._DROPS),
    (f"{GATE} && echo green", "", None),
    (f"{GATE} && echo green | cat", "", None),
    (f"{GATE} | cat", "", scripts._PIPE),
    (f"{GATE} | cat; exit ${{PIPESTATUS[0]}}", "", None),
    # a condition: what follows up to its end
    (f"if ! {GATE}; then exit 1; fi", "", None),
    (f"if {GATE}; then echo green; fi; exit 1", "", scripts._DROPS),
    # nothing but a space follows: the gate is the last command
    (f"{GATE}\n \n", "bash {0}", None),
    (f"{GATE}\n \necho done", "bash {0}", scripts._DROPS),
    # the other way of `||` ends with its line, unless it is a group
    (f"{GATE} || echo red\nexit 1", "", scripts._DROPS),
    (f"{GATE} || exit 1\necho done", "", None),
    (f"{GATE} || {{ echo red; exit 1; }}\necho done", "", None),
    (f"{GATE} || {{ echo red; }}\nexit 1", "", scripts._DROPS),
    (f"{GATE} || (echo red; exit 1)\necho done", "", None),
    (f"{GATE} || echo }} red; exit 1", "", scripts._DROPS),
    # an argument: the exit code is that of echo
    (f'echo "$({GATE})"', "", scripts._DROPS),
    (f"echo `{GATE}`", "", scripts._DROPS),
    (f"echo `date` `{GATE}`", "", scripts._DROPS),
    (f"echo $(date) `date`; {GATE}", "", None),
    (f"echo `date`; {GATE}", "", None),
    (f"found=$({GATE})", "", None),
]


@pytest.mark.parametrize(("script", "shell", "dropped"), SCRIPTS)
def test_what_drops_the_exit_code(script: str, shell: str, dropped: str | None) -> None:
    assert scripts.what_drops_the_code(scripts.plain_script(script), shell) == dropped


def test_a_script_of_very_many_gates_is_not_read() -> None:
    assert scripts.what_drops_the_code(f"{GATE}\n" * scripts._MOST_GATES, "") is None
    assert scripts.what_drops_the_code(f"{GATE}\n" * (scripts._MOST_GATES + 1), "") == (
        f"a script with more than {scripts._MOST_GATES} gates is not read"
    )
