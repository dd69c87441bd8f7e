"""Compares the questions that EVA's authors ship with what paravt-bench asks under protocol `eva` for all published rows.

Started by `ci/compare/agents CHECKOUTS --rows ROOT [--splits A,B]`; ROOT is laid out as that of ci/compare/genuine. Rows are
paired by their video and the letters of the question. What is compared: the text of the question, as it is sent, and the
gold answer.
"""
import collections
import json
import os
import re

import chat_server
from paravt_bench import records

FILES = {
    "videomme": "videomme_test_wosubtitles_raw_list_full",
    "longvideobench": "LongVideoBench_nosub_raw_full",
    "mlvu": "MLVU_MCQ_raw_full",
    "lvbench": "LVBench_raw_full_root",
    "lsdbench": "LSDBench_raw_full",
    "video_holmes": "videoholmes_raw_full",
}


def name(video: str) -> str:
    return os.path.basename(video).rpartition(".")[0]


def letters(text: str) -> str:
    return "".join(re.findall(r"\w", text.replace("\\n", "\n"))).lower()


def options(text: str) -> list:
    """Options without their letters, in order."""
    found = re.split(r"(?:\n|\\n)\(?[A-H][).:] ", text)
    # What stands below the last option is not part of it.
    return [letters(re.split(r"\n|\\n", option)[0]) for option in found[1:]]


def theirs(path: str) -> list:
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    # The loop strips the question.
    return [(name(row["videos"][0]), row["prompt"][0]["content"].strip(), row["reward_model"]["ground_truth"]) for row in rows]


def ours(folder: str) -> list:
    found = []
    for record in records(folder):
        user = next(message for message in record["transcript"]["messages"] if message["role"] == "user")
        text = "".join(part["text"] for part in user["parts"])
        question = re.sub(r"\AVideo Length: \d+ seconds\. Original video resolution: \d+p\. ", "", text)
        found.append((name(record["sample"]["video"]), question, record["sample"]["gold"]["answer"]))
    return found


# Differences that lie in the authors' files and change no question.
EXPLAINED = {"blanks", "no gold letter of theirs", "the gold letter of two options with the same text"}


def kind(a: tuple, b: tuple) -> str:
    """In what two rows of the same question differ."""
    (_, text, gold), (_, other, right) = a, b
    if letters(text) != letters(other):
        first, second = options(text), options(other)
        return "order of the options" if sorted(first) == sorted(second) else "the words"
    if gold != right:
        named = dict(zip("ABCDEFGH", options(text)))
        if gold not in named:
            return "no gold letter of theirs"
        return "the gold letter of two options with the same text" if named[gold] == named.get(right) else "the gold letter"
    if text != other:
        return "blanks" if "".join(text.split()) == "".join(other.split()) else "punctuation"
    return "the same"


def stem(row: tuple) -> tuple:
    return row[0], letters(re.split(r"(?:\n|\\n)(?:Options:\n)?\(?A[).:] ", row[1])[0])


def pairs(left: list, right: list) -> tuple:
    """Rows paired by everything, then by all letters, then by the question; and what is left of both."""
    found = []
    for key in (lambda row: row, lambda row: (row[0], letters(row[1])), lambda row: (stem(row), sorted(options(row[1]))), stem):
        waiting = collections.defaultdict(list)
        for row in right:
            waiting[repr(key(row))].append(row)
        rest = []
        for row in left:
            same = waiting[repr(key(row))]
            found.append((row, same.pop(0))) if same else rest.append(row)
        left, right = rest, [row for rows in waiting.values() for row in rows]
    return found, left, right


def compare(checkout: str, root: str, folder: str, splits: list, run) -> bool:
    url = chat_server.serve(lambda _: ({"role": "assistant", "content": "<answer>A</answer>"}, "stop"))
    run("protocol", "import", "eva", "--from", checkout)
    equal = True
    for split in splits or FILES:
        file = FILES[split]
        out = os.path.join(folder, "rows")
        run("run", split, "--protocol", "eva", "--hf-home", root, "--model", "scripted", "--base-url",
            url, "--concurrency", "8", "--out", out)
        left, right = theirs(os.path.join(checkout, f"data/{file}.jsonl")), ours(os.path.join(out, split))
        found, only_theirs, only_ours = pairs(left, right)
        counts = collections.Counter(kind(a, b) for a, b in found)
        print(f"{split}: {len(left)} rows of the authors, {len(right)} published, {len(only_theirs)} and {len(only_ours)} without a pair")
        for what, count in counts.most_common():
            print(f"  {count:5} {what}")
        shown = collections.Counter()
        for a, b in found:
            what = kind(a, b)
            shown[what] += 1
            if what != "the same" and shown[what] <= 2:
                print(f"    {what}: {a[0]}\n      {a[1:]!r}\n      {b[1:]!r}")
        for label, rows in (("theirs", only_theirs), ("ours", only_ours)):
            for row in rows[:2]:
                print(f"    only {label}: {row!r}")
        equal &= not (only_theirs or only_ours) and set(counts) <= {"the same", *EXPLAINED}
    return equal
