"""Names of the rules by which a policy learns; without TensorFlow, for checks of settings."""

ESTIMATORS = ("ppo_a2c", "ppo_ema", "reinforce", "reinforce_ema", "reinforce_a2c")
RANDOM = "random"  # instead of an estimator: a control that learns nothing
