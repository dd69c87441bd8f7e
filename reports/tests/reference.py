"""Intervals and standard errors from scipy and statsmodels.

    reference.py < CASES.json > RESULTS.json

CASES is {"wilson": [[hits, n], ...], "clustered": [[[cluster, score], ...], ...]}. RESULTS holds, in the
same order, [low, high] by scipy, [low, high] by statsmodels and the clustered standard error of the mean.
"""
import json
import sys

import numpy as np
import statsmodels.api as sm
from scipy.stats import binomtest, norm
from statsmodels.stats.proportion import proportion_confint


def by_scipy(hits: int, n: int) -> list[float]:
    interval = binomtest(hits, n).proportion_ci(confidence_level=0.95, method="wilson")
    return [float(interval.low), float(interval.high)]


def by_statsmodels(hits: int, n: int) -> list[float]:
    return [float(bound) for bound in proportion_confint(hits, n, alpha=0.05, method="wilson")]


def clustered(rows: list) -> float:
    """A mean is a regression on a constant; without the small-sample correction, as Miller (2024) has it."""
    names = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in rows))}
    scores = np.array([score for _, score in rows])
    groups = np.array([names[name] for name, _ in rows])
    fit = sm.OLS(scores, np.ones(len(rows))).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
    )
    return float(fit.bse[0])


def main() -> None:
    cases = json.load(sys.stdin)
    results = {
        "z95": float(norm.ppf(0.975)),
        "scipy": [by_scipy(*case) for case in cases["wilson"]],
        "statsmodels": [by_statsmodels(*case) for case in cases["wilson"]],
        "clustered": [clustered(case) for case in cases["clustered"]],
    }
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
