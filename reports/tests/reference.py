"""Intervals, standard errors and tests from scipy and statsmodels.

    reference.py < CASES.json > RESULTS.json

CASES holds lists of cases by name; RESULTS holds under each name one result per case, in order:
    wilson      [hits, n]              -> [[low, high] by scipy, [low, high] by statsmodels]
    clustered   [[cluster, value]...]  -> standard error of the mean
    paired      [[cluster, value]...]  -> [mean, standard error, low, high, p]
    bootstrap   [[cluster, value]...]  -> [low, high], 10,000 resamples
    grouped     [rows of a group...]   -> [mean of the groups' means, standard error]
    student     [value...]             -> [low, high]
    mcnemar     [gained, lost]         -> p
    holm        [p...]                 -> [adjusted...]
    power       standard error         -> smallest detectable difference
"""
import json
import sys

import numpy as np
import statsmodels.api as sm
from scipy.stats import binomtest, bootstrap, norm, sem, t
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import normal_power
from scipy.optimize import brentq
from statsmodels.stats.proportion import proportion_confint


def wilson(case: list) -> list:
    interval = binomtest(*case).proportion_ci(confidence_level=0.95, method="wilson")
    return [[float(interval.low), float(interval.high)],
            [float(bound) for bound in proportion_confint(*case, alpha=0.05, method="wilson")]]


def constant_fit(rows: list):
    """A mean is a regression on a constant; without the small-sample correction, as Miller (2024) has it."""
    names = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in rows))}
    values = np.array([value for _, value in rows])
    groups = np.array([names[name] for name, _ in rows])
    return sm.OLS(values, np.ones(len(rows))).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
    )


def clustered(rows: list) -> float:
    return float(constant_fit(rows).bse[0])


def paired(rows: list) -> list:
    fit = constant_fit(rows)
    low, high = fit.conf_int()[0]
    return [float(fit.params[0]), float(fit.bse[0]), float(low), float(high), float(fit.pvalues[0])]


def grouped(groups: list) -> list:
    """One constant per group, errors clustered by name over all of them, then the mean of the constants."""
    rows = [(number, name, value) for number, rows in enumerate(groups) for name, value in rows]
    names = {name: number for number, name in enumerate(dict.fromkeys(name for _, name, _ in rows))}
    groups_of = np.eye(len(groups))[[number for number, _, _ in rows]]
    fit = sm.OLS(np.array([value for _, _, value in rows]), groups_of).fit(
        cov_type="cluster", cov_kwds={"groups": np.array([names[name] for _, name, _ in rows]), "use_correction": False}
    )
    mean = fit.t_test(np.full(len(groups), 1 / len(groups)))
    return [float(mean.effect[0]), float(mean.sd[0, 0])]


def student(values: list) -> list:
    return [float(bound) for bound in t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=sem(values))]


def by_bootstrap(rows: list) -> list:
    totals: dict = {}
    for name, value in rows:
        total = totals.setdefault(name, [0.0, 0])
        total[0] += value
        total[1] += 1
    sums, sizes = np.array(list(totals.values())).T
    result = bootstrap((sums, sizes), lambda s, n, axis: s.sum(axis) / n.sum(axis), paired=True, vectorized=True,
                       n_resamples=10_000, method="percentile", rng=np.random.default_rng(1), batch=500)
    return [float(result.confidence_interval.low), float(result.confidence_interval.high)]


def exact_mcnemar(case: list) -> float:
    gained, lost = case
    return float(mcnemar([[0, gained], [lost, 0]], exact=True).pvalue)


def holm(case: list) -> list:
    return [float(p) for p in multipletests(case, method="holm")[1]]


def power(standard_error: float) -> float:
    found = lambda shift: normal_power(shift, 1, 0.05, alternative="two-sided", sigma=standard_error) - 0.8
    return float(brentq(found, 0, 10 * standard_error, xtol=1e-14))


def main() -> None:
    cases = json.load(sys.stdin)
    functions = {"wilson": wilson, "clustered": clustered, "paired": paired, "bootstrap": by_bootstrap,
                 "grouped": grouped, "student": student,
                 "mcnemar": exact_mcnemar, "holm": holm, "power": power}
    results = {name: [function(case) for case in cases[name]] for name, function in functions.items()}
    json.dump({"z95": float(norm.ppf(0.975)), **results}, sys.stdout)


if __name__ == "__main__":
    main()
