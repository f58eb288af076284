"""What every finished run writes into its `result.json`, for tests that write one by hand."""


def finished_result(test: dict, fold: int = 0, repeat: int = 0, config_hash: str = "0123456789") -> dict:
    """A result with these test metrics, which the untrained network has, too."""
    return {
        "status": "finished",
        "config_hash": config_hash,
        "fold": fold,
        "repeat": repeat,
        "test": test,
        "untrained": test,
        "steps": 30,
        "train_seconds": 2.0,
        "validation": {"best": {"MAP@R": 0.5, "step": 10}},
    }
