"""The surroundings of a command: files, git, the clock, the machine."""
