"""Runs the release's reinforcement learning (paravt.rl.train); each step is also a line of JSON in $PARAVT_STEPS.

The released train.py reads attributes of the `paravt:` block, which the configuration hands over as a dict; here
the block is merged into the release's own schema first.
"""

import torch  # isort: skip

torch.backends.cudnn.enabled = False  # as the release's train.py does, before the trainer is imported

import json
import math
import os
import sys

from areal.utils.stats_logger import StatsLogger
from omegaconf import OmegaConf

from paravt.rl import config as schema
from paravt.rl import train

release_commit = StatsLogger.commit
release_to_env = train.paravt_block_to_env


def plain(value):
    """A figure as JSON has it: numbers, with those that are not finite as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else str(number)


def commit(self, epoch, step, global_step, data):
    done = release_commit(self, epoch, step, global_step, data)
    if os.environ.get("RANK", "0") == "0":
        items = [data] if isinstance(data, dict) else data
        figures = {name: plain(value) for item in items for name, value in item.items()}
        line = json.dumps({"step": global_step, "epoch": epoch, **figures})
        with open(os.environ["PARAVT_STEPS"], "a", encoding="utf-8") as file:
            file.write(line + "\n")
    return done


def block_to_env(block):
    return release_to_env(OmegaConf.merge(OmegaConf.structured(schema.ParaVTConfig()), block))


StatsLogger.commit = commit
train.paravt_block_to_env = block_to_env

if __name__ == "__main__":
    train.main(sys.argv[1:])
