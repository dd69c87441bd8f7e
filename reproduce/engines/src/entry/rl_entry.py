"""Runs the release's reinforcement learning (paravt.rl.train); each step is also a line of JSON in $PARAVT_STEPS.

The released train.py reads attributes of the `paravt:` block, which the configuration hands over as a dict; here
the block is merged into the release's own schema first. The released workflow asks for the text of a sub-agent by a
method that the release lacks; it is added, but for $PARAVT_LOST_GROUPS. With $PARAVT_WHOLE_ATTENTION the trainer's
attention reaches back over frames.
"""

import torch  # isort: skip

torch.backends.cudnn.enabled = False  # as the release's train.py does, before the trainer is imported

import json
import math
import os
import sys

from areal.engine.fsdp_engine import FSDPEngine
from areal.utils.stats_logger import StatsLogger
from omegaconf import OmegaConf

from paravt.rl import config as schema
from paravt.rl import train
from paravt.rl.subagents.manager import SubagentManager

release_batches = FSDPEngine._prepare_mb_list
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


def completion(self, trajectory):
    """The generated text of a sub-agent."""
    return self.tokenizer.decode(trajectory["input_ids"][0][trajectory["loss_mask"][0] == 1])


def batches(self, data):
    """Micro-batches with the positions in the text before those of time, row and column: without them transformers
    takes each token of a frame, whose time does not advance, for the begin of another packed sequence."""
    made = release_batches(self, data)
    for batch in made.padded_mbs:
        of_media, starts = batch["position_ids"], batch["cu_seqlens"]
        in_all = torch.arange(of_media.shape[-1], device=of_media.device)
        in_text = in_all - starts[torch.searchsorted(starts, in_all, right=True) - 1]
        batch["position_ids"] = torch.cat([in_text.expand_as(of_media[:1]), of_media])
    return made


if os.environ.get("PARAVT_LOST_GROUPS") != "1":
    SubagentManager._extract_completion = completion
if os.environ.get("PARAVT_WHOLE_ATTENTION") == "1":
    FSDPEngine._prepare_mb_list = batches
StatsLogger.commit = commit
train.paravt_block_to_env = block_to_env

if __name__ == "__main__":
    train.main(sys.argv[1:])
