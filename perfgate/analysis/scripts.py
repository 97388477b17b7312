"""Find scripts of CI jobs that drop the exit code of the gate.

GitHub runs a script with `bash -e`, without `pipefail`. With `shell: bash`, it sets `pipefail`, too:
https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#jobsjob_idstepsshell.
"""

from __future__ import annotations

import re

#: The text of a command up to its end; a quoted text or a redirection may contain the signs that end a command.
_TEXT = r"""(?:"[^"]*"|'[^']*'|>(?:&|(?!&))|&(?=>)|[^\n;&|"'>])"""
#: A command that judges.
JUDGES = re.compile(rf"\bperfgate[ \t]+(?:check|run|report)\b{_TEXT}*")
#: The ref of the rules as a branch or tag, which code of the clone can move, and not as a hash.
_MOVABLE = re.compile(r"--policy-ref[ =][\"']?(?!\$|[0-9a-f]{40})\w")
#: A script that tests that the gate can fail.
WANTS_RED = re.compile(r"""test "?\$\{?\w+\}?"? (?:=|-eq) [1-9]|! *perfgate """)
#: A command and the sign after it.
_COMMAND = re.compile(rf"({_TEXT}*)(\|\||&&|\|&|[\n;&|]|\Z|[\"'])")
#: The end of a group or loop: the sign after it is about the commands within.
_CLOSES = re.compile(r"\s*(?:[})]|fi\b|done\b|esac\b)")
#: Text that ends the job, keeps the exit code, or judges again.
_KEEPS = re.compile(r"\b(?:exit|return)\b(?! *[\"']?0)|\bfalse\b|\bkill\b|\$\{?(?:\?|PIPESTATUS)|\w=|\bperfgate\b")
#: A gate as a condition, and as the value of a variable.
_CONDITION, _VALUE = re.compile(r"\s*(?:if|elif|while|until)\b"), re.compile(r"\s*\w+=\"?(?:\$\(|`)[^$`]*")
#: The longest script and the most gates in it that are looked at, so that every script ends.
LONGEST, _MOST_GATES = 20_000, 50
_DROPS = "the script drops the exit code of the gate"
_PIPE = "a pipe drops the exit code of the gate: `shell: bash` of the step keeps it"


def plain_script(script: str) -> str:
    """Return a script with continued lines joined, and without comments, except those with a quotation mark."""
    script = re.sub(r"(?m)(?:^|[ \t])#[^\"'\n]*$", "", script.replace("\\\n", " "))
    return re.sub(r"(\|\||&&|\|)[ \t]*\n\s*", r"\1 ", script)


def what_drops_the_code(script: str, shell: str) -> str | None:
    """Return in words what drops the exit code of a gate; None if nothing does.

    `script`: of `plain_script`. `shell`: the `shell` of the step, or "".
    """
    commands = [(text, sign) for text, sign in _COMMAND.findall(script) if text.strip() or sign]
    gates = [at for at, (text, _) in enumerate(commands) if JUDGES.search(text)]
    if len(gates) > _MOST_GATES:
        return f"a script with more than {_MOST_GATES} gates is not read"
    return next(filter(None, (_dropped(commands, at, shell) for at in gates)), None)


def judges_by_a_branch(script: str) -> bool:
    """Return whether a check of a script takes the rules of a branch or tag."""
    commands = (found[0] for found in JUDGES.finditer(script))
    return any(_MOVABLE.search(command) for command in commands if command.split()[1] == "check")


def _dropped(commands: list[tuple[str, str]], at: int, shell: str) -> str | None:
    """Return what drops the exit code of the command at this place."""
    before, text = "\n".join(one for one, _ in commands[:at]), commands[at][0]
    if re.search(r"\btrap\b.*\bexit 0", before):
        return _DROPS
    if _CONDITION.match(text):
        later = "".join(one + sign for one, sign in commands[at + 1 :])
        return None if _KEEPS.search(re.split(r"\b(?:fi|done)\b", later)[0]) else _DROPS
    return _DROPS if _is_argument(text) else _dropped_by_signs(commands[at:], *_options(before, shell))


def _options(before: str, shell: str) -> tuple[bool, bool]:
    """Return whether the script stops at the first command that fails, and whether a pipe fails if any command does."""
    if shell.partition(" ")[0] not in ("", "bash", "sh"):
        return True, True  # of other shells nothing is known: no attack
    stops = _is_set(r"\w*e|\w*o errexit", before, shell in ("", "bash", "sh") or bool(re.search(r" -\w*e", shell)))
    return stops, _is_set(r"\w*o pipefail", before, shell == "bash" or "pipefail" in shell)


def _dropped_by_signs(commands: list[tuple[str, str]], stops: bool, pipefail: bool) -> str | None:
    """Return what drops the exit code of the first of these commands, by the signs after it.

    A pipe drops it without `pipefail`. `||` drops it if the other side does not keep the code, and `&` if the script
    does not wait. The end of the command drops it if the script goes on: after `&&`, or if failed commands do not stop
    the script.
    """
    later = "".join(one + sign for one, sign in commands[1:])
    in_list = False  # True after `&&`: then `set -e` does not stop the script, and a pipe has only later commands
    for number, (_, sign) in enumerate(commands, 1):
        rest = commands[number:]
        if sign in ("|", "|&") and not (in_list or pipefail or "PIPESTATUS" in later):
            return _PIPE
        if sign == "||":
            return None if _KEEPS.search(_alternative(rest)) else _DROPS
        if sign == "&":
            return None if re.search(r"\bwait +\S", later) else _DROPS
        if sign in ("\n", ";") and not (rest and _CLOSES.match(rest[0][0])):
            goes_on = any(text.strip() for text, _ in rest) and (in_list or not stops)
            return _DROPS if goes_on and not _KEEPS.search(later) else None
        in_list = in_list or sign == "&&"
    return None


def _is_argument(text: str) -> bool:
    """Return whether the gate runs inside an argument of a command: then the exit code is that of the command."""
    before = text[: text.index("perfgate")]
    is_inner = ("$(" in before and ")" not in before.rpartition("$(")[2]) or before.count("`") % 2 == 1
    return is_inner and not _VALUE.fullmatch(before) and "$?" not in text


def _is_set(option: str, before: str, default: bool) -> bool:
    """Return whether an option of the shell is on after these commands. `option`: a pattern of what follows `set -`."""
    signs = re.findall(rf"\bset(?: [-+]\w+)*? ([-+])(?:{option})", before)
    return signs[-1] == "-" if signs else default


def _alternative(commands: list[tuple[str, str]]) -> str:
    """Return the text of the first command, or of the group that it begins, up to the end of its line."""
    text = ""
    for one, sign in commands:
        text += one + sign
        is_open = text.lstrip()[:1] in ("{", "(") and not text.rstrip(" ;\n").endswith(("}", ")"))
        if sign in ("\n", ";", "&") and not is_open:
            break
    return text
