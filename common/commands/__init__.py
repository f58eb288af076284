"""Programs: flags, plug-ins, quiet imports, signals and exit codes."""
