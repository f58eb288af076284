"""Recompute the figures of docs/results/claims.md with NumPy and SciPy alone.

It shares no code with the project: it reads rows and class sums of docs/results/rows/{planned,arms}_*. The differences,
the reasons why a study does not count, and the verdicts are recomputed; the thesis' range is read from the page.
Command: python tools/rebuild_claims.py [PAGE RESULTS]; exit code 1 on any difference.
"""

import glob
import json
import re
import sys
from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq
from scipy.special import stdtrit

Part = tuple[float, tuple[float, float], tuple[float, float], float]  # mean, two variances with freedom, skewness
FIXED, WIDE = "ccp+gap, fixed members", "gap, stride 16"
PLANNED = {  # method, baseline, and the loss that trains before the method begins
    "CCP with C1": ("c1+ccp+gap", "c1+gap", "c1+gap"),
    "CCP with C2": ("c2+ccp+gap", "c2+gap", "c2+gap"),
    "CCP with C2, whitened head": ("c2+ccp+gap, whitened head", *["c2+gap, whitened head"] * 2),
    "CCP with multi-similarity": ("ms+ccp+gap", "ms+gap", "ms+gap"),
    "alternation with C2": ("c2+ccp+gap", f"c2+{FIXED}", "c2+gap"),
    "alternation with multi-similarity": ("ms+ccp+gap", f"ms+{FIXED}", "ms+gap"),
    "memory with C2": ("c2+xbm+gap", "c2+gap", "c2+gap"),
    "GSP with ProxyNCA": ("pnca+gsp", f"pnca+{WIDE}", None),
    "GSP with Proxy Anchor": ("panchor+gsp", f"panchor+{WIDE}", None),
    "GSP with multi-similarity": ("ms+gsp", f"ms+{WIDE}", None),
    "zero-shot prediction with GSP": ("pnca+gsp", "pnca+gsp, without L_ZS", None),
}
CONTROLS = {
    "CCP": "gap",
    "alternation": "ccp+gap, one problem",
    "k-center": "ccp+gap, random members",
    "the proximal term": "ccp+gap, without the proximal term",
}
ARMS = {
    f"{part} with {name}, converged": (f"{loss}+ccp+gap", f"{loss}+{control}", None)
    for name, loss in (("C2", "c2"), ("multi-similarity", "ms"))
    for part, control in CONTROLS.items()
}
PLANS = {"planned": PLANNED, "arms": ARMS}
SHARE, WAIT, PROBLEMS, SETS, FLOOR = 0.9, 3, 2, 5, 0.01  # the rule of the page
FAMILIES = 8  # fewer leave classes as the draws


def read_study(folder: str) -> tuple[str, list[dict], np.ndarray, dict[str, np.ndarray]]:
    """Return data set, rows, class counts and MAP@R sums `[folds, classes]` by method."""
    with open(f"{folder}/rows.jsonl", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["kind"] == "training" and row["repeat"] == 0]
    scores, data, sums = np.load(f"{folder}/class_scores.npz"), rows[0]["data"], {}
    places = {key: place for place, key in enumerate(scores[f"{data}/rows"])}
    for row in sorted(rows, key=lambda row: row["fold"]):
        of_row = scores[f"{data}/MAP@R"][places[f"{row['config_hash']}/{row['fold']}-0"]]
        sums.setdefault(row["label"], []).append(of_row.astype(float))
    folds = rows[0]["configuration"]["num_folds"]
    dataset = re.split("_clutter|_on_photographs", rows[0]["dataset"])[0]
    dataset = data if dataset in ("folder", "manifest") else dataset
    complete = {of: np.array(each) for of, each in sums.items() if len(each) == folds}
    names, family = np.unique(
        scores.get(f"{data}/families", np.arange(len(scores[f"{data}/counts"]))), return_inverse=True
    )
    family = family if len(names) >= FAMILIES else np.arange(len(family))
    joined = np.eye(family.max() + 1)[family]  # classes of a family count as one
    return dataset, rows, scores[f"{data}/counts"] @ joined, {of: each @ joined for of, each in complete.items()}


def not_counted(rows: list[dict], claim: str) -> str:
    """Return the letters of the page's reasons against a study."""
    labels = (PLANNED | ARMS)[claim]
    method, baseline, alone = ({row["fold"]: row for row in rows if row["label"] == of} for of in labels)
    half = "validation" if all("validation_before" in row["extras"] for row in baseline.values()) else "test"

    def before(row: dict, name: str) -> float:
        if half == "validation":
            return row["extras"]["validation_before"][name]["MAP@R"]
        found = row.get("untrained") if name == "untrained" else row["extras"].get("closed_form", {}).get(name)
        return found["MAP@R"] if found else np.inf

    def is_late(row: dict) -> bool:
        problems, start, reached = row["extras"].get("problems"), row["configuration"].get("memory_start", 0), None
        if problems is not None:
            start, reached = (problems[0]["start_step"], problems[0]["best_before"]) if problems else (0, None)
        seen = [value for step, value in row["extras"].get("validation_curve", []) if step <= start]
        if len(seen) > WAIT and max(seen[-WAIT:]) <= max(seen[:-WAIT]):
            return True
        reached = max([0.0, *seen]) if reached is None else reached
        return row["fold"] in alone and reached >= SHARE * alone[row["fold"]]["validation"]["MAP@R"]

    own = np.mean([row[half]["MAP@R"] for row in baseline.values()])
    floors = [np.mean([before(row, name) for row in baseline.values()]) for name in ("untrained", "whitening")]
    tested = np.mean([row["test"]["MAP@R"] for row in baseline.values()])
    ended = [sum(of["outcome"] == "converged" for of in row["extras"].get("problems", [])) for row in method.values()]
    reasons = {
        "a": tested < FLOOR or own <= max(floors),
        "b": labels[2] is not None and not all(map(is_late, method.values())),
        "c": (claim in ARMS or claim.startswith("alternation")) and min(ended) < PROBLEMS,
    }
    return "".join(letter for letter, found in reasons.items() if found)


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


def study_claims(folder: str, plan: str) -> Iterator[tuple]:
    """Yield name, set, difference and ends, star, baseline and reasons against each complete claim."""
    dataset, rows, counts, sums = read_study(folder)
    pairs = {claim: of[:2] for claim, of in PLANS[plan].items() if set(of[:2]) <= sums.keys()}
    parts = [parts_of(sums[of] - sums[to], counts) for of, to in pairs.values()]
    p_values = [p_value(part) for part in parts]
    order, stars = np.argsort(p_values), np.zeros(len(parts), int)
    for rank, place in enumerate(order):  # Holm
        stars[place] = p_values[place] * (len(parts) - rank) < 0.05 and stars[order[:rank]].all()
    for (claim, (_, baseline)), part, star in zip(pairs.items(), parts, stars):
        base = sums[baseline].mean(axis=0).sum() / counts.sum()
        yield claim, dataset, (part[0], *interval(part)), star, base, not_counted(rows, claim)


def over_sets(counted: list[tuple[str, float]], smallest: float) -> list[str]:
    """Return verdict, number of sets, and their mean with Student's interval."""
    names = dict.fromkeys(name for name, _ in counted)
    means = [np.mean([value for of, value in counted if of == name]) for name in names]
    count, mean = len(means), np.mean(means) if means else 0.0
    if count < 2:
        return ["undecided", str(count), f"{100 * mean:+.1f}" if means else "-"]
    half = stdtrit(count - 1, 0.975) * np.std(means, ddof=1) / np.sqrt(count)
    word = "fails" if mean + half < max(smallest, 0) / 2 else "holds" if mean > half else "undecided"
    text = f"{100 * mean:+.1f} [{100 * (mean - half):+.1f}, {100 * (mean + half):+.1f}]"
    return [word if count >= SETS else "undecided", str(count), text]


def lines_of(page: str) -> list[list[str]]:
    """Return the cells of all lines of a page's tables."""
    with open(page, encoding="utf-8") as file:
        return [[cell.strip() for cell in line.strip("| \n").split("|")] for line in file if line.startswith("|")]


def main(page: str = "docs/results/claims.md", results: str = "docs/results/rows") -> list[list[str]]:
    """Return the rows that the page does not have."""
    found = [of for plan in PLANS if (of := differences(page, f"{results}/{plan}_*", plan)) is not None]
    return sum(found, []) if found else [[f"no study is in {results}"]]


def differences(page: str, folders: str, plan: str) -> list[list[str]] | None:
    """Return a plan's rows that the page lacks; None: it has no study."""
    known, missing = {line[0]: line for line in lines_of(page) if line[0] in PLANS[plan]}, []
    studies = [list(study_claims(of, plan)) for of in sorted(glob.glob(folders))]
    for claim in sorted({row[0] for rows in studies for row in rows}):
        figures, counted = [], []
        for found in ([row for row in rows if row[0] == claim] for rows in studies):
            figures += [] if found else ["-"]
            for _, dataset, ends, star, base, reasons in found:
                low, middle, high = (f"{100 * of / base:+.1f}" for of in (ends[1], ends[0], ends[2]))
                text = f"{middle} [{low}, {high}]" + "*" * star
                figures.append(f"({text}) {reasons}" if reasons else text)
                counted += [] if reasons else [(dataset, ends[0] / base)]
        printed = known.get(claim, ["-"] * 6)[5].split()[0]
        smallest = float(printed) / 100 if printed != "-" else 0.0
        judged = over_sets(counted, smallest)
        without = [over_sets(counted[:place] + counted[place + 1 :], smallest)[0] for place in range(len(counted))]
        same = f"{judged[0]} {without.count(judged[0])} of {len(counted)}" if counted else "-"
        shown = known.get(claim, [])
        is_same = shown[1:4] == judged and shown[4].split(";")[0] == same and shown[6:] == figures
        missing += [] if is_same else [[claim, *judged, same, *figures]]
    if studies:
        return missing
    return [[f"no study is in {folders}"]] if known else None


if __name__ == "__main__":
    differing = main(*sys.argv[1:])
    print("\n".join(f"not on the page: {' | '.join(row)}" for row in differing) or "Every figure was rebuilt.")
    sys.exit(bool(differing))
