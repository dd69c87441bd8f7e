"""Intervals, standard errors and tests from scipy and statsmodels.

    reference.py < CASES.json > RESULTS.json

CASES holds lists of cases by name; RESULTS holds under each name one result per case, in order:
    paired      [[cluster, value]...]  -> [mean, standard error, low, high, p], CR1 with two added clusters
    share       [[cluster, value]...]  -> [low, high, p of "above 0.45"], the same between 0 and 1
    grouped     [rows of a group...]   -> [mean of the groups' means, standard error, low, high], CR1 in each group
    student     [value...]             -> [low, high]
    holm        [p...]                 -> [adjusted...]
    power       [standard error, degrees of freedom] -> smallest detectable difference
    pass_at     [k, draws, right draws] -> probability of a right one among k drawn without replacement
"""
import json
import sys
from collections import Counter

import numpy as np
import statsmodels.api as sm
from scipy.optimize import brentq
from scipy.stats import hypergeom, sem, t
from statsmodels.stats.multitest import multipletests


def constant_fit(rows: list):
    """A mean is a regression on a constant; CR1 and t(G-1) are statsmodels' corrections for few clusters."""
    names = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in rows))}
    values = np.array([value for _, value in rows])
    groups = np.array([names[name] for name, _ in rows])
    return sm.OLS(values, np.ones(len(rows))).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": True}, use_t=True
    ), len(names)


def with_two(mean: float, error: float, weights: np.ndarray, rows: int, ends: tuple) -> tuple:
    """Centre, error and degrees of freedom after a cluster of the least value and one of the largest are added.

    `weights` are the clusters' shares of the mean. An added one has the root mean square of them over the rows, times
    that of a cluster of as many rows that correlate by a half against one whose rows are all alike.
    """
    size = rows / len(weights)
    added = np.sqrt(np.average(weights**2, weights=weights)) * np.sqrt((1 + (size - 1) * 0.5) / size)
    values = np.array([mean, *ends])
    parts = np.array([1, added, added])
    centre = np.average(values, weights=parts)
    variance = (error**2 + added**2 * np.sum((np.array(ends) - centre) ** 2)) / parts.sum() ** 2
    clusters = 2 + np.sum(weights**2) ** 2 / np.sum(weights**4)
    return centre, np.sqrt(variance), clusters - 1


def ends_of(centre: float, error: float, freedom: float, ends: tuple) -> list:
    return [float(np.clip(end, *ends)) for end in t.interval(0.95, freedom, loc=centre, scale=error)]


def weights_of(rows: list) -> np.ndarray:
    counts = np.array(list(Counter(name for name, _ in rows).values()))
    return counts / counts.sum()


def paired(rows: list) -> list:
    fit, _ = constant_fit(rows)
    mean, error = float(fit.params[0]), float(fit.bse[0])
    added = with_two(mean, error, weights_of(rows), len(rows), (-1, 1))
    p = 2 * t.sf(abs(added[0]) / added[1], added[2])
    return [mean, error, *ends_of(*added, (-1, 1)), float(p)]


def share(rows: list) -> list:
    fit, _ = constant_fit(rows)
    added = with_two(float(fit.params[0]), float(fit.bse[0]), weights_of(rows), len(rows), (0, 1))
    return [*ends_of(*added, (0, 1)), float(t.sf((added[0] - 0.45) / added[1], added[2]))]


def grouped(groups: list) -> list:
    """One constant per group, errors clustered by name over all of them, then the mean of the constants."""
    rows = [(number, name, value) for number, rows in enumerate(groups) for name, value in rows]
    names = {name: number for number, name in enumerate(dict.fromkeys(name for _, name, _ in rows))}
    sizes = [len({name for name, _ in rows}) for rows in groups]
    # A group's correction for few clusters scales its residuals.
    scale = [np.sqrt(size / (size - 1)) for size in sizes]
    means = [np.mean([value for _, value in rows]) for rows in groups]
    values = np.array([means[number] + scale[number] * (value - means[number]) for number, _, value in rows])
    groups_of = np.eye(len(groups))[[number for number, _, _ in rows]]
    fit = sm.OLS(values, groups_of).fit(
        cov_type="cluster", cov_kwds={"groups": np.array([names[name] for _, name, _ in rows]), "use_correction": False}
    )
    mean = fit.t_test(np.full(len(groups), 1 / len(groups)))
    of_group = [Counter(name for name, _ in rows) for rows in groups]
    parts = [sum(counts[name] / counts.total() for counts in of_group) / len(groups) for name in names]
    effect, error = float(mean.effect[0]), float(mean.sd[0, 0])
    return [effect, error, *ends_of(*with_two(effect, error, np.array(parts), len(rows), (-1, 1)), (-1, 1))]


def student(values: list) -> list:
    return [float(bound) for bound in t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=sem(values))]


def holm(case: list) -> list:
    return [float(p) for p in multipletests(case, method="holm")[1]]


def power(case: list) -> float:
    error, freedom = case
    critical = t.ppf(0.975, freedom)
    found = lambda shift: t.cdf(shift / error - critical, freedom) + t.cdf(-shift / error - critical, freedom) - 0.8
    return float(brentq(found, 0, 100 * error, xtol=1e-15, rtol=1e-14))


def pass_at(case: list) -> float:
    k, draws, right = case
    return float(1 - hypergeom.pmf(0, draws, right, k))


def main() -> None:
    cases = json.load(sys.stdin)
    functions = [paired, share, grouped, student, holm, power, pass_at]
    results = {function.__name__: [function(case) for case in cases[function.__name__]] for function in functions}
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
