"""Runs lmms-engine's trainer; each call of its tracker is also a line of JSON in $PARAVT_STEPS.

The module is run as the release runs it, by name: importing its main() leaves hydra without the folder of its
default configuration.
"""

import json
import math
import os
import runpy

from lmms_engine.utils import tracking

release_log = tracking.Tracking.log


def plain(value):
    """A figure as JSON has it: numbers, with those that are not finite as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else str(number)


def log(self, data, step=None):
    if step is not None:
        line = json.dumps({"step": step, **{name: plain(value) for name, value in data.items()}})
        with open(os.environ["PARAVT_STEPS"], "a", encoding="utf-8") as file:
            file.write(line + "\n")
    return release_log(self, data, step=step)


tracking.Tracking.log = log
runpy.run_module("lmms_engine.launch.cli", run_name="__main__", alter_sys=True)
