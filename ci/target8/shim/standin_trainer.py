"""Stands in for paravt.rl.trainer.HierarchicalPPOTrainer, whose actor needs GPUs.

It makes no rollout and learns nothing: each step asks the server for its health and moves one weight. Around it everything
is AReaL's own: the loader of the rows and its state, the saver, the recovery, the statistics and their order.
"""

import os
import time
import urllib.request

import safetensors.torch
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from areal.api.io_struct import FinetuneSpec, StepInfo
from areal.utils import stats_tracker
from areal.utils.dataloader import create_dataloader
from areal.utils.evaluator import Evaluator
from areal.utils.recover import RecoverHandler
from areal.utils.saver import Saver
from areal.utils.stats_logger import StatsLogger

WEIGHTS = "model.safetensors"
# Seconds of a step: long enough to be killed in.
PAUSE = 1.0


class Actor:
    """Weights on every rank, saved and loaded as AReaL's FSDP engine does: a model folder, or shards with the moments."""

    def __init__(self, path):
        self.path = path
        self.weights = safetensors.torch.load_file(os.path.join(path, WEIGHTS))
        self.name = min(self.weights)
        self.moments = torch.zeros(1)

    def step(self):
        self.weights[self.name].view(-1)[0] += 0.125
        self.moments += 1

    def save(self, meta):
        if meta.weight_format == "dcp":
            dcp.save({"model": self.weights, "moments": self.moments}, checkpoint_id=meta.path)
        elif dist.get_rank() == 0:
            for name in ("config.json", "generation_config.json"):
                with open(os.path.join(self.path, name), "rb") as source, open(os.path.join(meta.path, name), "wb") as target:
                    target.write(source.read())
            safetensors.torch.save_file(self.weights, os.path.join(meta.path, WEIGHTS), metadata={"format": "pt"})
            meta.processor.save_pretrained(meta.path)
            meta.tokenizer.save_pretrained(meta.path)
        dist.barrier()

    def load(self, meta):
        dcp.load({"model": self.weights, "moments": self.moments}, checkpoint_id=meta.path)


class Trainer:
    def __init__(self, config, train_dataset, valid_dataset=None):
        dist.init_process_group("gloo")
        self.config, self.server = config, os.environ["AREAL_LLM_SERVER_ADDRS"]
        self.loader = create_dataloader(train_dataset, dist.get_rank(), dist.get_world_size(), config.train_dataset)
        size = config.train_dataset.batch_size
        spec = FinetuneSpec(config.total_train_epochs, len(self.loader) * size, size)
        self.actor = Actor(config.actor.path)
        self.evaluator, self.saver = Evaluator(config.evaluator, spec), Saver(config.saver, spec)
        self.recovery, self.log = RecoverHandler(config.recover, spec), StatsLogger(config, spec)
        self.log.summary_writer = None  # tensorboardX is one of the empty packages
        parts = (self.saver, self.evaluator, self.log, self.loader)
        self.recovered = self.recovery.load({"default": self.actor}, *parts)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.log.close()
        dist.destroy_process_group()

    def train(self, workflow, workflow_kwargs, **_):
        first = self.recovered.last_step_info.next().global_step if self.recovered else 0
        rows, total = iter(self.loader), min(self.config.total_train_steps, self.config.total_train_epochs * len(self.loader))
        texts = {name: workflow_kwargs[name] for name in ("tokenizer", "processor")}
        for number in range(first, total):
            epoch, step = divmod(number, len(self.loader))
            batch = next(rows, None)
            if batch is None:
                rows = iter(self.loader)
                batch = next(rows)
            with stats_tracker.record_timing("rollout"):
                assert urllib.request.urlopen(f"http://{self.server}/health").status == 200 and batch
                time.sleep(PAUSE)
            self.actor.step()
            self.saver.save(self.actor, epoch, step, number, **texts)
            dist.barrier()
            info = StepInfo(epoch=epoch, epoch_step=step, global_step=number, steps_per_epoch=len(self.loader))
            parts = (self.saver, self.evaluator, self.log, self.loader)
            self.recovery.dump({"default": self.actor}, info, *parts, **texts)
            dist.barrier()
            # No learning is shown by these: they have the names of the real ones.
            figures = {"ppo_actor/task_reward/avg": 0.5, "reward_breakdown/format_reward": 0.25,
                       "tool_stats/tool_call_count": 1.5, "ppo_actor/update/update_successful": 1.0}
            self.log.commit(epoch, step, number, figures)
            dist.barrier()
