"""Intervals, standard errors and tests from scipy and statsmodels.

    reference.py < CASES.json > RESULTS.json

CASES holds lists of cases by name; RESULTS holds under each name one result per case, in order:
    paired      [[cluster, value]...]  -> [mean, standard error, low, high, p], CR1 and t(G-1)
    share       [[cluster, value]...]  -> [low, high, p of "above 0.45"], score test on the effective size
    grouped     [rows of a group...]   -> [mean of the groups' means, standard error], CR1 in each group
    student     [value...]             -> [low, high]
    holm        [p...]                 -> [adjusted...]
    power       [standard error, degrees of freedom] -> smallest detectable difference
    pass_at     [k, draws, right draws] -> probability of a right one among k drawn without replacement
"""
import json
import sys

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


def paired(rows: list) -> list:
    fit, _ = constant_fit(rows)
    low, high = fit.conf_int()[0]
    return [float(fit.params[0]), float(fit.bse[0]), float(low), float(high), float(fit.pvalues[0])]


def share(rows: list) -> list:
    """The interval holds every share that a score test on the effective sample size does not reject."""
    fit, clusters = constant_fit(rows)
    mean, error = float(fit.params[0]), float(fit.bse[0])
    size = mean * (1 - mean) / error**2
    score = lambda bound: (mean - bound) / np.sqrt(bound * (1 - bound) / size)
    critical = t.ppf(0.975, clusters - 1)
    low = brentq(lambda bound: score(bound) - critical, 1e-15, mean, xtol=1e-15, rtol=1e-14)
    high = brentq(lambda bound: score(bound) + critical, mean, 1 - 1e-15, xtol=1e-15, rtol=1e-14)
    return [float(low), float(high), float(t.sf(score(0.45), clusters - 1))]


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
    return [float(mean.effect[0]), float(mean.sd[0, 0])]


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
