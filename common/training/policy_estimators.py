"""How a policy that adapts a sampling distribution learns, by name; without TensorFlow, for checks of settings."""

ESTIMATORS = ("ppo_a2c", "ppo_ema", "reinforce", "reinforce_ema", "reinforce_a2c")
RANDOM = "random"  # instead of an estimator: a control that learns nothing
