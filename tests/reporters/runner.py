"""The commands that the runner of GitHub Actions finds in a text, as in `ActionCommand.cs` of actions/runner.

The runner looks at every line of stdout and stderr, first in the form of today and then in the old one. Unlike it,
this knows no list of commands: whatever has the form of one counts.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Command:
    name: str
    data: str
    properties: dict = field(default_factory=dict)


def commands(text):
    """Every command that the runner would see in a log, in order."""
    found = (today(line) or legacy(line) for line in text.split("\n"))
    return [command for command in found if command]


def today(line):
    """`::name key=value,key=value::data`, where only blanks stand before it."""
    line = line.lstrip()
    end = line.find("::", 2)
    if not line.startswith("::") or end < 0:
        return None
    name, _, properties = line[2:end].partition(" ")
    pairs = (pair.partition("=") for pair in properties.strip().split(",") if pair)
    values = {key: unescape_property(value) for key, _, value in pairs if value}
    return Command(name, unescape_data(line[end + 2 :]), values)


def legacy(line):
    """`##[name key=value;key=value]data`, anywhere in a line."""
    start = line.find("##[")
    end = line.find("]", start)
    return Command(line[start + 3 : end], line[end + 1 :]) if start >= 0 and end >= 0 else None


def unescape_data(text):
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def unescape_property(text):
    return unescape_data(text.replace("%3A", ":").replace("%2C", ","))
