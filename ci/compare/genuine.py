"""Constant answers to all published rows, scored by paravt-bench and from the raw files. Called by ci/compare/genuine.

Nothing here reads a record of ours for the scores it expects: `expected` knows the published columns and nothing else.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import chat_server

PROFILES = ["strict", "paper", "release"]
LETTER, SPAN = "B", (0.0, 10.0)

# Repository and file of each split's rows.
FILES = {
    "videomme": ("lmms-eval/Video-MME", "videomme/test-00000-of-00001.parquet"),
    "longvideobench": ("longvideobench/LongVideoBench", "validation-00000-of-00001.parquet"),
    "lvbench": ("lmms-eval/LVBench", "data/train-00000-of-00001.parquet"),
    "mlvu": ("sy1998/MLVU_dev", "mlvu/test-00000-of-00001.parquet"),
    "mmvu": ("yale-nlp/MMVU", "validation.json"),
    "charades": ("lmms-eval/charades_sta", "data/test-00000-of-00001.parquet"),
    "vsibench": ("nyu-visionx/VSI-Bench", "test-00000-of-00001.parquet"),
    "lsdbench": ("TainU/LSDBench", "mc_qa_annotations_1300.json"),
}
# Columns of golds where they are not `answer`.
GOLDS = {"longvideobench": "correct_choice", "vsibench": "ground_truth", "lsdbench": "correct_answer"}
SPLITS = ["videomme", "videomme_wsub", *list(FILES)[1:]]
DIRECTIONS = "object_rel_direction"


def file_of(root, split):
    repository, name = FILES[split.removesuffix("_wsub")]
    snapshots = root / "hub" / ("datasets--" + repository.replace("/", "--")) / "snapshots"
    found = sorted(snapshots.glob("*/" + name))
    if not found:
        sys.exit(f"{split}: no {name} of {repository} below {snapshots}")
    return found[0]


def rows_of(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.suffix == ".json" else pq.read_table(path).to_pylist()


def mean(values):
    values = list(values)
    return float(np.mean(values)) if values else 0.0


def over_groups(rows, values, key):
    groups = defaultdict(list)
    for row, value in zip(rows, values):
        groups[key(row)].append(value)
    return {name: mean(group) for name, group in groups.items()}


def expected(split, profile, rows):
    """Samples, mean over samples, headline and other metrics of the constant answer, in percent."""
    if split == "charades":
        ious = []
        for row in rows:
            start, end = (float(time) for time in row["timestamp"])
            inside = max(0.0, min(end, SPAN[1]) - max(start, SPAN[0]))
            # Intervals that do not touch have no overlap, by the hull and by the lengths.
            ious.append(inside / (max(end, SPAN[1]) - min(start, SPAN[0])) if inside else 0.0)
        recall = {f"R@{at}": 100 * mean(iou >= at for iou in ious) for at in (0.3, 0.5, 0.7)}
        return len(ious), 100 * mean(ious), {"mIoU": 100 * mean(ious), **recall}
    if split == "vsibench":
        # A letter does not parse as a number and scores 0.
        right = [float(row["options"] is not None and row["ground_truth"] == LETTER) for row in rows]
        types = over_groups(rows, right, lambda row: row["question_type"])
        directions = [types.pop(name) for name in sorted(types) if name.startswith(DIRECTIONS)]
        headline = mean([*types.values(), mean(directions)])
        return len(rows), 100 * mean(right), {"mean over question_type": 100 * headline, "score": 100 * mean(right)}
    if split == "mmvu":
        # Open-ended rows: apart under strict, left out under paper, compared as letters under release.
        rows = [row for row in rows if profile == "release" or row["question_type"] == "multiple-choice"]
    if split == "longvideobench":
        right = [float(row["correct_choice"] == ord(LETTER) - ord("A")) for row in rows]
    elif split == "mlvu" and profile == "release":
        # The released loader looks for a candidate that equals the letter.
        found = lambda row: [text.strip() for text in row["candidates"]].index(row["answer"].strip())
        right = [float(any(t.strip() == row["answer"].strip() for t in row["candidates"]) and found(row) == 1) for row in rows]
    else:
        right = [float(row[GOLDS.get(split, "answer")].strip() == LETTER) for row in rows]
    metrics = {"accuracy": 100 * mean(right)}
    if split == "mlvu":
        tasks = over_groups(rows, right, lambda row: row["task_type"])
        metrics = {"mean over task_type": 100 * mean(tasks.values()), **metrics}
    return len(right), 100 * mean(right), metrics


class Constant:
    """A server that always says the same."""

    reply = LETTER

    @classmethod
    def answer(cls, _):
        return {"role": "assistant", "content": cls.reply}, "stop"


def altered(split, rows):
    """Rows with other golds, in words, and the same counts of letters where that can be."""
    if split == "charades":
        for row in rows:
            row["timestamp"] = [np.float16(row["timestamp"][0]), np.float16(row["timestamp"][1] + 1.0)]
        return "every end 1 s later"
    if split == "mmvu":
        for row in rows:
            if row["question_type"] == "multiple-choice":
                row["answer"] = "A"
        return "every gold A"
    column = GOLDS.get(split, "answer")
    first = next(row for row in rows if row.get("options", True) is not None)
    usable = (row for row in rows if row.get("options", True) is not None)
    other = next(row for row in usable if row[column] != first[column] and row[column] in (0, 1, 2, "A", "B"))
    first[column], other[column] = other[column], first[column]
    return "two golds swapped"


def write_altered(root, split, into):
    """A root with the same files in which one split's golds are others; what was changed."""
    path = file_of(root, split)
    copy = into / path.relative_to(root)
    for entry in root.iterdir():
        if entry.name != "hub":
            (into / entry.name).symlink_to(entry)
    shutil.copytree(root / "hub", into / "hub", symlinks=True, copy_function=os.link)
    rows = rows_of(path)
    change = altered(split, rows)
    copy.unlink()
    if path.suffix == ".json":
        copy.write_text(json.dumps(rows), encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), copy)
    return change


class Check:
    def __init__(self, binary, root, out):
        self.binary, self.root, self.out, self.failures = binary, root, out, []

    def call(self, *arguments, root=None):
        command = [self.binary, *map(str, arguments), "--hf-home", str(root or self.root)]
        return subprocess.run(command, capture_output=True, text=True)

    def differs(self, what):
        self.failures.append(what)
        print("  DIFFERS: " + what)

    def rows(self, splits):
        """`data check`: every row usable, and the published ones."""
        checks = json.loads(self.call("data", "check", *splits, "--json").stdout)
        for check in checks:
            split, read, usable = check["task"], check["rows"], check["usable_rows"]
            published = len(rows_of(file_of(self.root, split)))
            state = "as published" if check["verified"] else "NOT the published rows"
            print(f"{split:<15} {read:>5} rows read, {usable} usable, {published} in the file: {state}")
            if not (read == usable == published and check["verified"]):
                self.differs(f"{split}: {json.dumps(check['findings'])}")
        return sum(len(rows_of(file_of(self.root, split))) for split in splits if split in FILES)

    def scores(self, splits, url):
        print(f"\n{'split':<15} {'profile':<8} {'N':>5} {'metric':<24} {'ours':>12} {'from the files':>15}")
        for split in splits:
            raw = rows_of(file_of(self.root, split))
            for profile in PROFILES:
                Constant.reply = "{:g} - {:g}".format(*SPAN) if split == "charades" else LETTER
                out = self.out / profile
                run = self.call("run", split, "--profile", profile, "--mode", "direct", "--nframes", 4, "--model", "scripted",
                                "--base-url", url, "--concurrency", 16, "--out", out)
                if run.returncode != 0:
                    self.differs(f"{split} {profile}: exit code {run.returncode}: {run.stderr[-400:]}")
                    continue
                manifest = json.loads((out / split / "manifest.json").read_text())
                summary = json.loads((out / split / "summary.json").read_text())
                n, value, metrics = expected(split, profile, raw)
                ours = {metric["name"]: 100 * metric["value"] for metric in summary["metrics"]}
                over_samples = next(metric["value"] for metric in summary["metrics"] if metric["over"] == "samples")
                for name, theirs in metrics.items():
                    shown = ours.get(name, float("nan"))
                    print(f"{split:<15} {profile:<8} {summary['n']:>5} {name:<24} {shown:>12.6f} {theirs:>15.6f}")
                    if not abs(shown - theirs) < 1e-9:
                        self.differs(f"{split} {profile} {name}")
                if summary["n"] != n or list(ours) != list(metrics) or abs(100 * over_samples - value) >= 1e-9:
                    self.differs(f"{split} {profile}: N {summary['n']}, expected {n}; metrics {list(ours)}")
                headline = f"{split}: {next(iter(metrics.values())):.1f}"
                if headline not in run.stderr:
                    self.differs(f"{split} {profile}: the headline is not what is printed: {run.stderr[-200:]}")
                wants = split != "videomme_wsub"
                if manifest["inputs"].get("verified", False) != wants:
                    self.differs(f"{split} {profile}: the manifest says verified {not wants}")
                if (split == "videomme_wsub") != ("subtitles of 0 videos" in run.stderr):
                    self.differs(f"{split} {profile}: the warning of missing subtitles")
                flags = ", ".join(f"{name} {count}" for name, count in summary["flags"].items())
                if flags:
                    print(f"{'':<15} {'':<8} {'':>5} flags: {flags}")

    def alterations(self, splits):
        print("\naltered golds")
        for split in [split for split in splits if split in FILES]:
            with tempfile.TemporaryDirectory(dir=self.out) as folder:
                change = write_altered(self.root, split, Path(folder))
                checks = json.loads(self.call("data", "check", split, "--json", root=folder).stdout)
            found = [finding for finding in checks[0]["findings"] if finding["kind"] == "other_rows"]
            print(f"{split:<15} {change:<22} {found[0]['difference'][:90] if found else 'NOT FOUND'}")
            if not found or checks[0]["verified"]:
                self.differs(f"{split}: altered golds pass as the published rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--keep", type=Path, help="keep the run directories here")
    parser.add_argument("--splits", default=",".join(SPLITS))
    arguments = parser.parse_args()
    splits = arguments.splits.split(",")
    url = chat_server.serve(Constant.answer)
    # On the file system of the rows, where hard links to them can be made.
    with tempfile.TemporaryDirectory(dir=arguments.keep or arguments.root.parent) as scratch:
        out = arguments.keep or Path(scratch)
        check = Check(arguments.binary, arguments.root, out)
        rows = check.rows(splits)
        check.scores(splits, url)
        check.alterations(splits)
    print(f"\n{rows} rows, {len(check.failures)} differences")
    sys.exit(bool(check.failures))


main()
