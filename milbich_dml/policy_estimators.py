"""Names of the learning rules of policies, without TensorFlow, for setting checks."""

ESTIMATORS = ("ppo_a2c", "ppo_ema", "reinforce", "reinforce_ema", "reinforce_a2c")
RANDOM = "random"  # a control without learning, instead of an estimator
