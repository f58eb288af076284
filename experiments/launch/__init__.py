"""Parallel units: worker processes on one machine, or a Slurm array."""
