"""Many units at once: worker processes on one machine, or an array of a Slurm cluster."""
