"""Scores, the difference of two runs, and accuracy by number of tool calls, with pandas.

    python with_pandas.py REPORT/tables SPLIT RUN_A RUN_B

`report -o REPORT` writes the tables; `suite/docs/frames.md` says what their columns hold.
"""

import json
import sys

import pandas as pd

tables, split, run_a, run_b = sys.argv[1:]
samples = pd.read_parquet(f"{tables}/samples.parquet")
calls = pd.read_parquet(f"{tables}/calls.parquet")

# Questions that a profile leaves out of the score are not in its mean.
counted = samples[samples["counted"]]
scores = 100 * counted.groupby(["split", "run"])["score"].mean()
print(scores)

# Two runs meet in the samples that both have.
of_split = counted[counted["split"] == split]
a, b = (of_split[of_split["run"] == run].set_index(["sample", "video"])["score"] for run in (run_a, run_b))
pairs = pd.concat([a, b], axis=1, keys=["a", "b"], join="inner")
difference = 100 * (pairs["b"] - pairs["a"])
print(difference.mean(), len(pairs))

by_calls = 100 * of_split[of_split["run"] == run_a].groupby("calls")["score"].mean()
print(by_calls)

# The calls themselves: how many a sample has is what the samples say.
made = len(calls[(calls["split"] == split) & (calls["run"] == run_a)])

print(json.dumps({
    "scores": {"|".join(names): score for names, score in scores.items()},
    "difference": difference.mean(),
    "pairs": len(pairs),
    "by_calls": {str(calls): accuracy for calls, accuracy in by_calls.items()},
    "calls": made,
}))
