"""Rewards of random rollouts by PyVision-RL's own reward manager, for `conformance` and `ci/compare/pyvision`.

    python ci/compare/pyvision_rewards.py CHECKOUT SEED [CASES] > rewards.json

The judge, a model in the release, is a number of the case. A letter as the truth of a source that goes by rule raises in
the release, and so does a response without a number: neither is among the cases. Nor is an answer of 1000 characters, whose
turns the release pays though it scores 0.
"""

import contextlib
import json
import os
import random
import re
import sys
import types
from collections import defaultdict

import torch

from pyvision_release import functions, released, stand_in, verdict, verifier

draw = random.Random(int(sys.argv[2]))
JUDGED = ["vstar", "hrbench-4k", "hrbench-8k", "vsi"]
BY_RULE = ["vsi_numerical", "counts_rule_verifiable"]
PIECES = ["<answer>\n\\boxed{", "}\n</answer>", "<answer>", "</answer>", "\\boxed{", "A", "B", "left", " ", "\n", "2", "1.5", "-3", "</interpreter>",
          "<|vision_start|><|image_pad|>", "<|image_pad|><|vision_end|>", "<|vision_start|><|image_pad|><|vision_end|>"]

rule = functions("utils/reward_score/rule_match_verify.py", ["_parse_number", "_compute_mra", "compute_score_rule_mra"],
                 re=re, _NUM_RE=re.compile(r"[-+]?\d*\.?\d+"))
scores = "verl.utils.reward_score"
stand_in(scores, __path__=[], multi_task_verifier=types.SimpleNamespace(compute_score=verifier["compute_score"]))
sys.modules[f"{scores}.rule_match_verify"] = released.stub(f"{scores}.rule_match_verify", **rule)
sys.modules[scores].rule_match_verify = sys.modules[f"{scores}.rule_match_verify"]
route = functions("utils/reward_score/__init__.py", ["_default_compute_score"], __package__=scores)["_default_compute_score"]
reward = functions("workers/reward_manager/naive.py", ["__call__"], torch=torch, defaultdict=defaultdict)["__call__"]


class Item(types.SimpleNamespace):
    """A batch of one rollout."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return types.SimpleNamespace(
            batch={name: rows[index] for name, rows in self.batch.items()}, non_tensor_batch=self.non_tensor_batch)


def total(source, response, truth, judged, turns):
    """The sum of a rollout's token rewards, which are f32, to six decimals."""
    length = 8
    paid = torch.zeros(1, length)
    paid[0, :turns] = 0.1
    batch = {"prompts": torch.zeros(1, 1), "responses": torch.zeros(1, length), "attention_mask": torch.ones(1, 1 + length, dtype=torch.int64),
             "env_reward": paid}
    verdict.choices[0].message.content = str(judged)
    manager = types.SimpleNamespace(
        tokenizer=types.SimpleNamespace(decode=lambda ids: response), compute_score=route, reward_fn_key="data_source", num_examine=0, step_cnt=0,
        llm_as_a_judge_config={"api_key": "", "base_url": "", "model_name": ""})
    fields = {"reward_model": {"ground_truth": truth}, "data_source": source, "extra_info": {"question": "q"}}
    return round(float(reward(manager, Item(batch=batch, non_tensor_batch=fields)).sum()), 6)


def cases(number):
    while number:
        by_rule = draw.random() < 0.5
        source = draw.choice(BY_RULE if by_rule else JUDGED)
        truth = draw.choice(["1", "1.5", "2", "40", "0"]) if by_rule else draw.choice(["A", "B", "2"])
        near = str(round(float(truth) * draw.choice([1, 1.04, 0.9, 1.2, 0.75, 1.3, 1.5]), 2)) if by_rule else draw.choice(["A", "(B) left"])
        response = "".join(draw.choice(PIECES) for _ in range(draw.choice([0, 0, 1, 2, 9])))
        if draw.random() < 0.8:
            response += "<answer>\n\\boxed{" + near + "}\n</answer>"
        if by_rule and not re.search(r"\d", response):
            continue
        case = {"source": source, "response": response, "truth": truth, "judged": draw.randrange(2), "turns": draw.randrange(5)}
        number -= 1
        yield {"fn": "pyvision_reward", "input": case, "output": total(**case)}


with contextlib.redirect_stdout(open(os.devnull, "w")):
    made = list(cases(int(sys.argv[3]) if len(sys.argv) > 3 else 5000))
json.dump(made, sys.stdout, indent=0)
