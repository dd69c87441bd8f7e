"""Two folders of runs side by side: scores by split, and each transcript that differs with its first differing call.

    python ci/served.py IN_PROCESS SERVED

Exit code 1 where a score differs.
"""

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
    tokens = [(call.get("usage") or {}).get("prompt_tokens") for call in (ours, theirs)]
    if tokens[0] != tokens[1]:
        return f"the prompts have {tokens[0]} and {tokens[1]} tokens"
    if theirs.get("rebuilt") and not said(theirs).startswith(said(ours)[:16]):
        return "the server took the reply apart and lost a piece"
    return "the same conversation, another token: a near tie of two f32 implementations"


def main():
    ours_root, theirs_root = map(Path, sys.argv[1:3])
    differing = 0
    for folder in sorted(path for path in ours_root.iterdir() if (path / "journal.jsonl").is_file()):
        ours, theirs = read(folder), read(theirs_root / folder.name)
        score = [100 * sum(r["score"]["value"] for r in side.values()) / max(len(side), 1) for side in (ours, theirs)]
        rebuilt = sum(any(call.get("rebuilt") for call in r["transcript"]["calls"]) for r in theirs.values())
        errors = sum(r["score"]["outcome"] == "error" for r in theirs.values())
        pairs = [(uid, ours[uid], theirs[uid]) for uid in ours if uid in theirs]
        changed = [(uid, a, b, first_difference(a, b)) for uid, a, b in pairs]
        changed = [change for change in changed if change[3] is not None]
        flips = sum(a["score"]["value"] != b["score"]["value"] for _, a, b in pairs)
        differing += flips + abs(len(ours) - len(theirs))
        print(
            f"{folder.name:<14} in process {score[0]:6.1f}  served {score[1]:6.1f}  samples {len(ours)}/{len(theirs)}  "
            f"score differs {flips}  transcript differs {len(changed)}  rebuilt {rebuilt}  errors {errors}"
        )
        for uid, a, b, (step, mine, other) in changed:
            values = f"{a['score']['value']:g} / {b['score']['value']:g}"
            print(f"  {uid} {step} ({values}): {cause(mine, other)}")
            print(f"    in process: {said(mine)[:160] if mine else '-'}")
            print(f"    served:     {said(other)[:160] if other else '-'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
