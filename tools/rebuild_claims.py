"""Recompute the figures of docs/results/claims.md from rows, with NumPy and SciPy alone.

It shares no code with the project: it reads the rows and class sums of `results/planned_*`.
Command: python tools/rebuild_claims.py [PAGE RESULTS]; exit code 1 on any difference.
"""

import glob
import json
import sys
from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq
from scipy.special import stdtrit

Part = tuple[float, tuple[float, float], tuple[float, float], float]  # mean, two variances with freedom, skewness
FIXED, WIDE = "ccp+gap, fixed members", "gap, stride 16"
PLANNED = {
    "C2 + memory": ("c2+xbm+gap", "c2+gap"),
    "C2 + CCP": ("c2+ccp+gap", "c2+gap"),
    "C2 + CCP, from a whitened head": ("c2+ccp+gap, whitened head", "c2+gap, whitened head"),
    "C1 + CCP": ("c1+ccp+gap", "c1+gap"),
    "MS + CCP": ("ms+ccp+gap", "ms+gap"),
    "C2 + CCP, against fixed members": ("c2+ccp+gap", f"c2+{FIXED}"),
    "MS + CCP, against fixed members": ("ms+ccp+gap", f"ms+{FIXED}"),
    "C2 + fixed members, against random proxies": (f"c2+{FIXED}", "c2+ccp+gap, random proxies"),
    "PNCA + GSP": ("pnca+gsp", f"pnca+{WIDE}"),
    "Proxy Anchor + GSP": ("panchor+gsp", f"panchor+{WIDE}"),
    "MS + GSP": ("ms+gsp", f"ms+{WIDE}"),
    "PNCA + GSP with L_ZS, against without": ("pnca+gsp", "pnca+gsp, without L_ZS"),
}


def read_study(folder: str) -> tuple[str, np.ndarray, dict[str, np.ndarray]]:
    """Return data set, class counts and MAP@R sums `[folds, classes]` by method."""
    with open(f"{folder}/rows.jsonl", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["kind"] == "training" and row["repeat"] == 0]
    scores, data, sums = np.load(f"{folder}/class_scores.npz"), rows[0]["data"], {}
    places = {key: place for place, key in enumerate(scores[f"{data}/rows"])}
    for row in sorted(rows, key=lambda row: row["fold"]):
        of_row = scores[f"{data}/MAP@R"][places[f"{row['config_hash']}/{row['fold']}-0"]]
        sums.setdefault(row["label"], []).append(of_row.astype(float))
    folds = rows[0]["configuration"]["num_folds"]
    dataset = data if rows[0]["dataset"] in ("folder", "manifest") else rows[0]["dataset"].split("_clutter")[0]
    return dataset, scores[f"{data}/counts"], {of: np.array(each) for of, each in sums.items() if len(each) == folds}


def parts_of(difference: np.ndarray, counts: np.ndarray) -> Part:
    """Return the mean of `[folds, classes]`, and what its interval is made of."""
    shares, total, folds = counts / counts.sum(), counts.sum(), len(difference)
    of_fold = difference.sum(axis=1) / total
    deviations = difference.mean(axis=0) / total - of_fold.mean() * shares
    by_class = difference / total - of_fold[:, None] * shares
    shared = ((by_class - by_class.mean(axis=0)) ** 2 / (1 - shares)).sum() / (folds - 1) / folds
    effective = (shares**2).sum() ** 2 / (shares**4).sum()
    skewness = (deviations**3).sum() / (deviations**2).sum() ** 1.5
    skewness *= np.sqrt(effective * (effective - 1)) / (effective - 2)
    of_classes = max((deviations**2 / (1 - shares)).sum() - shared, 0.0), effective - 1
    return of_fold.mean(), of_classes, (of_fold.var(ddof=1) / folds, folds - 1), skewness


def interval(part: Part, level: float = 0.95) -> tuple[float, float]:
    """Join the parts by the rule of docs/statistics.md, with the shift of skewness."""
    mean, (first, first_freedom), (second, second_freedom), skewness = part
    student, of_folds = (stdtrit(freedom, 0.5 + level / 2) for freedom in (first_freedom, second_freedom))
    shift, root = abs(skewness) * (2 * student**2 + 1) / 6, np.sqrt(first + second)
    tail = min(student + shift * (1 + 24 / (first_freedom + 1)), np.inf if first_freedom >= 7 else 2 * student)
    sides = (max(student - shift / 3, student / 2), tail)[:: 1 if skewness >= 0 else -1]
    joint = stdtrit(root**4 / (first**2 / first_freedom + second**2 / second_freedom), 0.5 + level / 2) * root
    back = ((first * student + second * of_folds) / root - joint) / 2 * min(1, (1 - level) / 0.05)
    below, above = ((first * side + second * of_folds) / root - back for side in sides)
    return mean - below, mean + above


def p_value(part: Part) -> float:
    """Return the level at which the interval touches zero."""

    def excess(log_p: float) -> float:
        low, high = interval(part, 1 - np.exp(log_p))
        return -low if part[0] > 0 else high

    return np.exp(brentq(excess, np.log(1e-15), np.log1p(-1e-9))) if excess(np.log(1e-15)) > 0 else 1e-15


def study_claims(folder: str) -> Iterator[tuple]:
    """Yield each complete claim: name, set, difference and ends, star, MAP@R of the baseline."""
    dataset, counts, sums = read_study(folder)
    pairs = {claim: of for claim, of in PLANNED.items() if set(of) <= sums.keys()}
    parts = [parts_of(sums[of] - sums[to], counts) for of, to in pairs.values()]
    p_values = [p_value(part) for part in parts]
    order, stars = np.argsort(p_values), np.zeros(len(parts), int)
    for rank, place in enumerate(order):  # Holm
        stars[place] = p_values[place] * (len(parts) - rank) < 0.05 and stars[order[:rank]].all()
    for (claim, (_, baseline)), part, star in zip(pairs.items(), parts, stars):
        yield claim, dataset, (part[0], *interval(part)), star, sums[baseline].mean(axis=0).sum() / counts.sum()


def over_sets(means: list[float], has_loss: bool, smallest: float) -> list[str]:
    """Return the mean over sets with Student's interval, and the verdict."""
    if not means:
        return ["-", "undecided"]
    mean, count = np.mean(means), len(means)
    if count == 1:
        return [f"{100 * mean:+.1f}", "undecided"]
    half = stdtrit(count - 1, 0.975) * np.std(means, ddof=1) / np.sqrt(count)
    fails = 2 * sum(of <= 0 for of in means) >= count or mean + half < max(smallest, 0) / 2
    word = "undecided" if count < 3 else "fails" if fails else "holds" if mean > half and not has_loss else "undecided"
    return [f"{100 * mean:+.1f} [{100 * (mean - half):+.1f}, {100 * (mean + half):+.1f}]", word]


def main(page: str = "docs/results/claims.md", results: str = "results") -> list[list[str]]:
    """Return the rows that are not on the page."""
    with open(page, encoding="utf-8") as file:
        lines = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in file if line.startswith("|")]
    known, missing = {line[0]: line for line in lines if line[0] in PLANNED}, []
    studies = [list(study_claims(of)) for of in sorted(glob.glob(f"{results}/planned_*"))]
    for claim in sorted({row[0] for rows in studies for row in rows}):
        figures, by_set, has_loss = [], {}, False
        for found in ([row for row in rows if row[0] == claim] for rows in studies):
            figures += [] if found else ["-"]
            for _, dataset, ends, star, base in found:
                low, middle, high = (f"{100 * of / base:+.1f}" for of in (ends[1], ends[0], ends[2]))
                text = f"{middle} [{low}, {high}]" + "*" * star
                figures.append(text if base >= 0.01 else f"({text})")
                if base >= 0.01:  # below, the baseline has hardly learned
                    by_set.setdefault(dataset, []).append(ends[0] / base)
                    has_loss |= star and ends[0] < 0
                points = f"{100 * ends[0]:+.2f}{'*' * star} [{100 * ends[1]:.2f}, {100 * ends[2]:.2f}]"
                row = [" - ".join(PLANNED[claim]), f"{100 * base:.2f}", points]
                missing += [] if row in [line[:1] + line[2:4] for line in lines] else [row]
        printed = known.get(claim, [claim, "-"])[1].split()[0]
        figures += over_sets([np.mean(of) for of in by_set.values()], has_loss, float(printed.replace("-", "-0")) / 100)
        missing += [] if known.get(claim, [])[2:] == figures else [[claim, *figures]]
    return missing


if __name__ == "__main__":
    differing = main(*sys.argv[1:])
    print("\n".join(f"not on the page: {' | '.join(row)}" for row in differing) or "Every figure was rebuilt.")
    sys.exit(bool(differing))
