"""What every method of this project stands on: operations, losses, poolings, backbones, data, retrieval, training."""
