"""The released reinforcement learning up to its trainer, with our entry file and configuration:
check_rl.py ENTRY CONFIG [KEY=VALUE...]

Real are the entry file, hydra, AReaL's configuration classes, paravt.rl.train, the loader of the rows and the writer
of statistics; the trainer that would need GPUs is replaced by one that notes what it was given. Prints it as JSON.
"""

import dataclasses
import enum
import json
import os
import runpy
import sys

entry, config, *overrides = sys.argv[1:]
os.environ["AREAL_SPMD_MODE"] = "1"
module = runpy.run_path(entry, run_name="entry")
train, seen = module["train"], {}


class Trainer:
    def __init__(self, config, train_dataset, valid_dataset=None):
        given = dataclasses.asdict(config)
        seen.update(config=given, rows=len(train_dataset), paths=[row["video_paths"] for row in train_dataset])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def train(self, **given):
        seen["workflow"] = given["workflow"]
        seen["agent"] = dataclasses.asdict(given["workflow_kwargs"]["config"])
        names = ["THINK_PREFIX", "ANSWER_SUFFIX", "NFRAMES_GATING", "ANCHOR_WEIGHT", "REWARD_MODE", "FORMAT_WEIGHT"]
        seen["environment"] = {name: os.environ.get(name) for name in names}
        logger = module["StatsLogger"].__new__(module["StatsLogger"])
        logger.ft_spec = type("Spec", (), {"total_train_epochs": 1, "steps_per_epoch": 2, "total_train_steps": 2})
        logger._last_commit_step, logger._wandb_ok, logger.summary_writer = 0, False, None
        figures = {"ppo_actor/task_reward/avg": 0.25, "reward_breakdown/format_reward": float("nan"), "a__count": 3}
        logger.commit(0, 0, 0, [figures])


train.HierarchicalPPOTrainer = Trainer
train.main(["--config", config, *overrides])
seen["config"]["gconfig"] = {name: value for name, value in seen["config"]["gconfig"].items() if name != "lora_name"}
print("SEEN " + json.dumps(seen, default=lambda value: value.value if isinstance(value, enum.Enum) else str(value)))
