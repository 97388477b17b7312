"""What surrounds a command: files, git, the clock, the machine."""
