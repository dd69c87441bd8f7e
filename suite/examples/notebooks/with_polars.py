"""Scores, the difference of two runs, and accuracy by number of tool calls, with polars.

    python with_polars.py REPORT/tables SPLIT RUN_A RUN_B

`report -o REPORT` writes the tables; `suite/docs/frames.md` says what their columns hold.
"""

import json
import sys

import polars as pl

tables, split, run_a, run_b = sys.argv[1:]
samples = pl.read_parquet(f"{tables}/samples.parquet")
calls = pl.read_parquet(f"{tables}/calls.parquet")

# Questions that a profile leaves out of the score are not in its mean.
counted = samples.filter("counted")
scores = counted.group_by("split", "run").agg(score=100 * pl.col("score").mean(), n=pl.len()).sort("split", "run")
print(scores)

# Two runs meet in the samples that both have.
key = ["sample", "video"]
of_split = counted.filter(pl.col("split") == split)
a = of_split.filter(pl.col("run") == run_a).select(*key, "score")
b = of_split.filter(pl.col("run") == run_b).select(*key, "score")
pairs = a.join(b, on=key, suffix="_b").with_columns(difference=100 * (pl.col("score_b") - pl.col("score")))
print(pairs.select(pl.col("difference").mean(), pairs=pl.len()))

by_calls = of_split.filter(pl.col("run") == run_a).group_by("calls").agg(accuracy=100 * pl.col("score").mean())
print(by_calls.sort("calls"))

# The calls themselves: how many a sample has is what the samples say.
made = calls.filter((pl.col("split") == split) & (pl.col("run") == run_a)).height

print(json.dumps({
    "scores": {f"{row['split']}|{row['run']}": row["score"] for row in scores.to_dicts()},
    "difference": pairs["difference"].mean(),
    "pairs": pairs.height,
    "by_calls": {str(row["calls"]): row["accuracy"] for row in by_calls.to_dicts()},
    "calls": made,
}))
