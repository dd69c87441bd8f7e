"""Scores, the difference of two runs, and accuracy by number of tool calls, with DuckDB.

    python with_duckdb.py REPORT/tables SPLIT RUN_A RUN_B

`report -o REPORT` writes the tables; `suite/docs/frames.md` says what their columns hold.
"""

import json
import sys

import duckdb

tables, split, run_a, run_b = sys.argv[1:]
database = duckdb.connect()
for name in ("samples", "calls"):
    database.read_parquet(f"{tables}/{name}.parquet").create_view(name)

# Questions that a profile leaves out of the score are not in its mean.
scores = database.execute(
    "SELECT split, run, 100 * avg(score) FROM samples WHERE counted GROUP BY split, run ORDER BY split, run"
).fetchall()

# Two runs meet in the samples that both have.
difference, pairs = database.execute(
    """
    SELECT 100 * avg(b.score - a.score), count(*)
    FROM samples a JOIN samples b USING (split, sample, video)
    WHERE split = ? AND a.run = ? AND b.run = ? AND a.counted AND b.counted
    """,
    [split, run_a, run_b],
).fetchone()

by_calls = database.execute(
    """
    SELECT calls, 100 * avg(score) FROM samples
    WHERE counted AND split = ? AND run = ? GROUP BY calls ORDER BY calls
    """,
    [split, run_a],
).fetchall()

# The calls themselves: how many a sample has is what the samples say.
(made,) = database.execute("SELECT count(*) FROM calls WHERE split = ? AND run = ?", [split, run_a]).fetchone()

print(json.dumps({
    "scores": {f"{split}|{run}": score for split, run, score in scores},
    "difference": difference,
    "pairs": pairs,
    "by_calls": {str(calls): accuracy for calls, accuracy in by_calls},
    "calls": made,
}))
