"""What can be found out about finished trainings and embeddings, beside the figures of their protocol."""
