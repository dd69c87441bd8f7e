"""The command that is compared with other code: its calls and its records."""

import json
import os
import subprocess
import sys


def command(binary: str, folder: str):
    """A function that calls it with a cache below a folder, and ends the program where a call fails."""
    environment = {**os.environ, "PARAVT_BENCH_CACHE": os.path.join(folder, "cache")}
    environment.pop("OPENAI_API_KEY", None)

    def call(*words):
        done = subprocess.run([binary, *words], env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")

    return call


def records(run: str) -> list:
    """Of a run's folder."""
    with open(os.path.join(run, "journal.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]
