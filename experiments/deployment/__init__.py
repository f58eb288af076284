"""From finished runs to models that can be used: formats, cards, and the one trained on all training classes."""
