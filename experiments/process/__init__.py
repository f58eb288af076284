"""What the process of a command does beside its work: quiet imports, signals and exit codes."""
