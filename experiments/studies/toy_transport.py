"""Effect of entropy on weights: a linear programme and its smooth versions.

Regenerates: thesis figure 5.2 (10 x 10 picture with a reddish and a bluish patch of 5 x 5 on green, prototypes red and
    blue; pooling weights of the linear programme and of the entropic problem, mu = 0.2).
Expected: thesis section 5.2.2: both weigh the patches and nothing of the ground. The linear programme picks mu n single
    positions, the entropy spreads the weight over a patch. The noise and the smoothing of the figure are not printed;
    ours are chosen.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

import gsp_dml
from common.errors import check_fraction, check_given
from experiments.plans.study import FinishedCells, Study, StudyOptions
from experiments.reports import Table, plots

SIZE, NOISE, TRANSPORT_RATIO = 10, 0.08, 0.2
SMOOTHINGS = (1.0, 5.0, 20.0, 100.0, 1000.0)
DRAWN = (5.0, 20.0, 100.0)
_RED, _GREEN, _BLUE = np.eye(3)
PROTOTYPES = np.stack([_RED, _BLUE])


class ToyTransport(Study):
    """The linear programme beside the entropic problem as smoothing grows; no option changes it."""

    needs_data = False

    def __init__(self, options: StudyOptions):
        self.groups = {}
        self.title = (
            f"Entropic partial transport and its linear programme, mu = {TRANSPORT_RATIO:g} (thesis figure 5.2)"
        )
        self.notes = (
            "Cost is sum c pi of (P1); the programme's is the smallest possible. Positions are counted by the "
            "exponential of the weights' entropy.",
        )

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table and the picture."""
        from gsp_dml.partial_transport import weight_perplexity
        from gsp_dml.prototype_costs import prototype_costs

        image, on_patches = picture()
        costs = prototype_costs(image.reshape(-1, 3), PROTOTYPES).numpy()
        programme = linear_programme(costs, TRANSPORT_RATIO)
        solutions = {"linear programme": programme}
        for smoothing in SMOOTHINGS:
            solutions[f"entropic, smoothing {smoothing:g}"] = entropic(costs, TRANSPORT_RATIO, smoothing)
        lines = []
        for label, (cost, weights) in solutions.items():
            on_patch, distance = weights[on_patches.ravel()].sum(), np.abs(weights - programme.weights).sum() / 2
            figures = [f"{cost:.5f}", f"{cost - programme.cost:.5f}", f"{100 * on_patch:.1f}"]
            lines.append([label, *figures, f"{float(weight_perplexity(weights)):.1f}", f"{distance:.3f}"])
        header = ["problem", "cost", "above programme", "weight on patches (%)", "positions", "distance to programme"]
        text = Table(self.title, header, lines, self.notes).write(folder, name)
        drawn = ["linear programme", *(f"entropic, smoothing {smoothing:g}" for smoothing in DRAWN)]
        maps = {label: solutions[label].weights.reshape(SIZE, SIZE) for label in drawn}
        draw_weights(np.clip(image, 0, 1), maps, folder / f"{name}.png", self.title)
        return f"{text}Figure: {folder / f'{name}.png'}"


class Solution(NamedTuple):
    """Linear part of a problem's cost, and its pooling weights `[positions]`."""

    cost: float
    weights: np.ndarray


def picture(noise: float = NOISE, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the noisy picture `[height, width, colors]` and its patches' mask `[height, width]`."""
    image = np.tile(_GREEN, (SIZE, SIZE, 1))
    image[:5, :5], image[5:, 5:] = _RED, _BLUE
    on_patches = image[..., 1] == 0
    return image + np.random.default_rng(seed).normal(scale=noise, size=image.shape), on_patches


def linear_programme(costs: np.ndarray, transport_ratio: float) -> Solution:
    """Solve problem (P1) without entropy, by `scipy.optimize.linprog`.

        min  sum_ji c_ji pi_ji   over pi, rho >= 0,  rho_j + sum_i pi_ji = 1/n,  sum_ji pi_ji = mu

    Reference: thesis (P1); c is `[positions, prototypes]`, mu in (0, 1].
    """
    from scipy.optimize import linprog

    check_fraction("transport_ratio", transport_ratio)
    num_positions, num_prototypes = costs.shape
    identity = np.eye(num_positions)
    masses = np.hstack([np.repeat(identity, num_prototypes, axis=1), identity])
    total = np.hstack([np.ones(costs.size), np.zeros(num_positions)])
    found = linprog(
        np.hstack([costs.ravel(), np.zeros(num_positions)]),
        A_eq=np.vstack([masses, total]),
        b_eq=np.append(np.full(num_positions, 1 / num_positions), transport_ratio),
        method="highs",
    )
    plan = found.x[: costs.size].reshape(costs.shape)
    return Solution(float(found.fun), plan.sum(axis=1) / transport_ratio)


def entropic(costs: np.ndarray, transport_ratio: float, smoothing: float) -> Solution:
    """Solve problem (P2) by the layer's solver, in double precision.

    The smoothing is the inverse weight of the entropy.
    """
    transport = gsp_dml.partial_transport(costs.astype(np.float64), transport_ratio, smoothing, return_plan=True)
    return Solution(float((costs * check_given("plan", transport.plan).numpy()).sum()), transport.weights.numpy())


def draw_weights(image: np.ndarray, maps: Mapping[str, np.ndarray], path: pathlib.Path, title: str) -> None:
    """Draw an image and its maps to one scale (atomic PNG)."""
    largest = max(float(weights.max()) for weights in maps.values())
    columns = 1 + len(maps)
    with plots.picture(path, 2.4 * columns + 0.8, 3.0, columns=columns, is_framed=True) as (figure, panels):
        panels[0].imshow(image)
        panels[0].set_title("image", fontsize="small")
        for panel, (name, weights) in zip(panels[1:], maps.items()):
            drawn = panel.imshow(100 * weights, cmap="magma", vmin=0, vmax=100 * largest)
            panel.set_title(name, fontsize="small")
        for panel in panels:
            panel.set(xticks=(), yticks=())
        figure.colorbar(drawn, ax=list(panels), label="weight (%)", shrink=0.8)
        figure.suptitle(title, fontsize="medium")
