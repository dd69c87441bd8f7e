"""Two folders of runs side by side: scores by split, and each transcript that differs with its first differing call.

    python ci/servers/served.py IN_PROCESS SERVED [LABELS [TABLE]]

LABELS (mode,channel,dialect) and the figures of all splits together go to TABLE as a line of a CSV. Dialect native takes
calls out of the text and gives results another role: its conversations are compared up to the first call of each.

Exit code 1 where a score differs (under dialect native: where a first call does) or a sample is lost.
"""

import collections
import csv
import json
import sys
from pathlib import Path


def read(run):
    lines = (run / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    records = map(json.loads, filter(None, lines))
    return {record["sample"]["uid"]: record for record in records}


def said(call):
    """What a call came to, without white space: a server strips it."""
    error = call.get("error")
    return error["message"] if error else " ".join(call["text"].split())


def first_difference(ours, theirs):
    """The first call whose text differs, by step, or None."""
    theirs = {call["step"]: call for call in theirs["transcript"]["calls"]}
    for call in ours["transcript"]["calls"]:
        other = theirs.pop(call["step"], None)
        if other is None:
            return call["step"], call, None
        if said(call) != said(other):
            return call["step"], call, other
    return next(((step, None, call) for step, call in theirs.items()), None)


def cause(ours, theirs):
    if ours is None or theirs is None:
        return "one side did not ask this"
    if theirs.get("error"):
        return "the server's call failed"
    if ours["conversation"] != theirs["conversation"]:
        return "the conversation before it differs (white space that the server stripped)"
    tokens = [prompt_tokens(call) for call in (ours, theirs)]
    if tokens[0] != tokens[1]:
        return f"the prompts have {tokens[0]} and {tokens[1]} tokens"
    if theirs.get("reassembled") and not said(theirs).startswith(said(ours)[:16]):
        return "the server took the reply apart and lost a piece"
    return "the same conversation, another token: a near tie of two f32 implementations"


def prompt_tokens(call):
    return (call.get("usage") or {}).get("prompt_tokens")


def first_words(record, call):
    """The text of the first call before its tool calls, and those calls as objects."""
    text = call["text"]
    calls = [json.loads(found["arguments"]) for found in call.get("tool_calls", [])]
    pieces = text.split("<tool_call>")
    for piece in pieces[1:]:
        calls.append(json.loads(piece.split("</tool_call>")[0])["arguments"])
    return " ".join(pieces[0].split()), calls


def of_native(ours, theirs):
    """The first calls, which dialect native has in common with the others; one pair a sample."""
    mine, other = ours["transcript"]["calls"][0], theirs["transcript"]["calls"][0]
    try:
        return first_words(ours, mine) == first_words(theirs, other), mine, other
    except (ValueError, KeyError, TypeError):
        return False, mine, other


def main():
    ours_root, theirs_root = map(Path, sys.argv[1:3])
    labels = sys.argv[3].split(",") if len(sys.argv) > 3 else []
    is_native = labels[-1:] == ["native"]
    total, causes, bad = collections.Counter(), collections.Counter(), 0
    for folder in sorted(path for path in ours_root.iterdir() if (path / "journal.jsonl").is_file()):
        ours, theirs = read(folder), read(theirs_root / folder.name)
        score = [100 * sum(r["score"]["value"] for r in side.values()) / max(len(side), 1) for side in (ours, theirs)]
        reassembled = sum(any(call.get("reassembled") for call in r["transcript"]["calls"]) for r in theirs.values())
        errors = sum(r["score"]["outcome"] == "error" for r in theirs.values())
        pairs = [(uid, ours[uid], theirs[uid]) for uid in ours if uid in theirs]
        lost = errors - sum(a["score"]["outcome"] == "error" for _, a, _ in pairs) + len(ours) - len(pairs)
        flips = sum(a["score"]["value"] != b["score"]["value"] for _, a, b in pairs)
        retried = sum(sum(b["measured"]["call_retries"]) for _, _, b in pairs)
        changed = []
        for uid, a, b in pairs:
            calls = {call["step"]: call for call in b["transcript"]["calls"]}
            if is_native:
                same, mine, other = of_native(a, b)
                both, equal = [(mine, other)], int(same)
                difference = None if same else (mine["step"], mine, other)
            else:
                both = [(call, calls[call["step"]]) for call in a["transcript"]["calls"] if call["step"] in calls]
                equal = sum(said(mine) == said(other) for mine, other in both)
                difference = first_difference(a, b)
            tokens = sum(prompt_tokens(mine) != prompt_tokens(other) for mine, other in both)
            total.update(calls=len(both) if is_native else len(a["transcript"]["calls"]), equal=equal, tokens=tokens)
            if difference is not None:
                changed.append((uid, a, b, difference))
        bad += max(lost, 0) + (len(changed) if is_native else flips)
        total.update(samples=len(ours), lost=max(lost, 0), flips=flips, retried=retried)
        print(
            f"{folder.name:<14} in process {score[0]:6.1f}  served {score[1]:6.1f}  samples {len(ours)}/{len(theirs)}  "
            f"score differs {flips}  transcript differs {len(changed)}  reassembled {reassembled}  errors {errors}"
        )
        for uid, a, b, (step, mine, other) in changed:
            values = f"{a['score']['value']:g} / {b['score']['value']:g}"
            causes[cause(mine, other)] += 1
            print(f"  {uid} {step} ({values}): {cause(mine, other)}")
            print(f"    in process: {said(mine)[:160] if mine else '-'}")
            print(f"    served:     {said(other)[:160] if other else '-'}")
    if len(sys.argv) > 4:
        write(Path(sys.argv[4]), labels, total, causes)
    return 1 if bad else 0


def write(table, labels, total, causes):
    """Adds the line of these two folders."""
    is_new = not table.exists()
    with table.open("a", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        if is_new:
            lines.writerow("mode channel dialect samples lost retries calls equal scores_differ prompts_differ".split()
                           + ["first differences"])
        names = ["samples", "lost", "retried", "calls", "equal", "flips", "tokens"]
        why = "; ".join(f"{count} {cause}" for cause, count in sorted(causes.items()))
        lines.writerow([*labels, *(total[name] for name in names), why])


if __name__ == "__main__":
    sys.exit(main())
