"""Bayesian search over a grid: Gaussian process, expected improvement; deterministic, resumable."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

_TIE_DIGITS = 9  # expected improvements that agree so far are a tie, which the grid's order decides


class Surface:
    """Matérn 5/2 regression over `[points, dims]`, with a length scale per dimension."""

    def __init__(self, points: np.ndarray, values: np.ndarray):
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        points = np.asarray(points, np.float64)
        scales = Matern(np.full(points.shape[1], 0.5), (0.2, 10.0), nu=2.5)
        kernel = ConstantKernel(1.0, (1e-2, 1e2)) * scales + WhiteKernel(0.05, (1e-4, 1.0))
        self.process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # a parameter at its bound is an answer, with few points
            self.process.fit(points, np.asarray(values, np.float64))

    def mean(self, points: np.ndarray) -> np.ndarray:
        """Return the regression's mean `[points]` at points `[points, dims]`."""
        return self.process.predict(np.asarray(points, np.float64))

    def spread(self, points: np.ndarray) -> np.ndarray:
        """Return the noise-free value's standard deviation `[points]` at `[points, dims]`."""
        _, total = self.process.predict(np.asarray(points, np.float64), return_std=True)
        noise = self.process.kernel_.k2.noise_level * self.process._y_train_std**2
        return np.sqrt(np.clip(total**2 - noise, 0, None))

    def expected_improvement(self, points: np.ndarray) -> np.ndarray:
        """Return E[max(0, f(x) - f*)] `[points]`, f* the largest mean at a measured point."""
        from scipy.stats import norm

        mean, spread = self.mean(points), np.maximum(self.spread(points), 1e-12)
        gain = mean - self.mean(self.process.X_train_).max()
        return gain * norm.cdf(gain / spread) + spread * norm.pdf(gain / spread)


class BayesianSearch:
    """Grid points that a search visits, as far as values are known.

    First come points of a Halton sequence, then, one by one, the unvisited point with the largest expected improvement.
    Point k + 1 depends only on the values at the points 1 .. k.

    Args:
        grid: candidates `[candidates, dims]` in [0, 1].
        num_initial: points before the first regression, >= 2.
        num_points: points in all, at most as many as candidates.
    """

    def __init__(self, grid: np.ndarray, num_initial: int, num_points: int):
        self.grid, self.num_points = grid, min(num_points, len(grid))
        self.initial = initial_points(grid, num_initial)
        self._next: dict[tuple, int] = {}  # what follows a beginning with its values; saves regressions, nothing else

    def path(self, value_at: Callable[[int], float | None]) -> list[int]:
        """Return the initial candidates' indices and one more per complete beginning.

        A value that is not known yet is None.
        """
        path = list(self.initial)
        while len(path) < self.num_points:
            values = [value for index in path if (value := value_at(index)) is not None]
            if len(values) < len(path):
                break
            beginning = (tuple(path), tuple(values))
            if beginning not in self._next:
                self._next[beginning] = next_point(self.grid, path, values)
            path.append(self._next[beginning])
        return path


def initial_points(grid: np.ndarray, num_points: int) -> list[int]:
    """Return the distinct candidates nearest to the start of a Halton sequence."""
    from scipy.stats.qmc import Halton

    sequence = Halton(grid.shape[1], scramble=False).fast_forward(1)  # not from the origin
    chosen: list[int] = []
    while len(chosen) < min(num_points, len(grid)):
        (target,) = sequence.random()
        nearest = int(np.argmin(((grid - target) ** 2).sum(axis=1).round(_TIE_DIGITS)))
        if nearest not in chosen:
            chosen.append(nearest)
    return chosen


def next_point(grid: np.ndarray, visited: Sequence[int], values: Sequence[float]) -> int:
    """Return the unvisited candidate of largest expected improvement (first of ties)."""
    improvement = Surface(grid[list(visited)], np.asarray(values)).expected_improvement(grid)
    improvement[list(visited)] = -np.inf
    scale = max(np.ptp(values), 1e-12)
    return int(np.argmax(np.round(improvement / scale, _TIE_DIGITS)))
