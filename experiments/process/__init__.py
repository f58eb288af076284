"""Process of a command: quiet imports, signals and exit codes."""
