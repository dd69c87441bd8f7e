"""Loss and gradients of one step of reinforcement learning by transformers and torch, in float64: arms.py FOLDER...

A FOLDER has step.json (folders of policy and reference, knobs, passes, sequences) and step.safetensors (tokens, positions and
patches of every sequence); torch.safetensors with `loss`, `gradient.NAME`, their terms' sizes and, where there is a reference, its
log-probabilities as `reference` is written beside them.
"""
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3VLForConditionalGeneration

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train/tests"))
import objectives


def load(path):
    model = Qwen3VLForConditionalGeneration.from_pretrained(path, dtype=torch.float64, attn_implementation="eager")
    return model.eval()


def packed(times):
    """Mask (1, 1, rows, columns), added to scores: a row sees those before it back to the last whose time does not follow the
    time before it by one, as transformers 4.57.1 reads positions without a mask."""
    sequence = (torch.diff(times, prepend=times[:1] - 1) != 1).cumsum(0)
    seen = torch.ones(len(times), len(times)).tril().bool() & (sequence[:, None] == sequence)
    return torch.where(seen, 0.0, torch.finfo(torch.float64).min).double()[None, None]


class Step:
    def __init__(self, folder):
        self.case = json.loads((folder / "step.json").read_text())
        self.tensors = load_file(folder / "step.safetensors")
        self.knobs, self.sequences = self.case["knobs"], self.case["sequences"]

    def logprobs(self, model, place):
        """Log-probability of every token but the first, given those before it."""
        media = self.sequences[place]["media"]
        ids = self.tensors[f"{place}.ids"].long()
        grids = [torch.tensor([medium["grid"]]) for medium in media]
        patches = [self.tensors[f"{place}.patches.{number}"].double() for number in range(len(media))]
        inputs = {}
        for kind, is_video in (("image", False), ("video", True)):
            chosen = [number for number, medium in enumerate(media) if medium["is_video"] == is_video]
            if chosen:
                pixels = "pixel_values_videos" if is_video else "pixel_values"
                inputs[pixels] = torch.cat([patches[number] for number in chosen])
                inputs[f"{kind}_grid_thw"] = torch.cat([grids[number] for number in chosen])
        positions = self.tensors[f"{place}.positions"].long().T[:, None]
        if not self.case["whole_attention"]:
            inputs["attention_mask"] = packed(positions[0, 0])
        logits = model(input_ids=ids[None], position_ids=positions, **inputs).logits[0, :-1]
        return torch.log_softmax(logits / self.knobs["temperature"], -1).gather(1, ids[1:, None])[:, 0]

    def trained(self, place):
        """Rows that predict a trained token."""
        return torch.tensor(self.sequences[place]["loss_mask"][1:], dtype=torch.bool)

    def count(self, places):
        return sum(int(self.trained(place).sum()) for place in places)

    def score_by_reference(self):
        model, found = load(self.case["reference"]), []
        with torch.no_grad():
            for place, sequence in enumerate(self.sequences):
                values = torch.where(self.trained(place), self.logprobs(model, place), 0.0)
                sequence["reference"] = values.tolist() + [0.0]
                found.append(torch.cat([values, torch.zeros(1)]))
        return torch.cat(found)

    def results(self):
        results = {}
        if self.case["reference"]:
            results["reference"] = self.score_by_reference()
        for sequence in self.sequences:
            # Without a KL term: its weight is 0.
            sequence["reference"] = sequence["reference"] or sequence["behaviour"]
            sequence["new"] = sequence["prox"] = [0.0] * len(sequence["loss_mask"])
        advantages = objectives.batch({"knobs": self.knobs, "sequences": self.sequences})["tokens"]

        policy, passes = load(self.case["policy"]), self.case["passes"]
        total = self.count([place for part in passes for place in part])
        # Where every ratio is 1 and advantages are normalised the loss is nearly 0: its terms say what a difference is large
        # against.
        loss = terms = 0.0
        gradients, sizes = {}, {}
        for part in passes:
            scale = 1 / max(total, 1)
            if self.knobs["aggregation"] == "micro_batches":
                scale = 1 / (max(self.count(part), 1) * len(passes))
            for place in part:
                rows = self.trained(place)
                new = self.logprobs(policy, place)[rows]
                behaviour = torch.tensor(self.sequences[place]["behaviour"][1:])[rows]
                given = torch.tensor(advantages[place][:-1])[rows]
                # A mean over its tokens.
                here = objectives.policy_loss(new, new.detach(), behaviour, given, self.knobs) * len(new) * scale
                weights = dict(policy.named_parameters())
                found = torch.autograd.grad(here, list(weights.values()), allow_unused=True)
                for name, gradient in zip(weights, found):
                    if gradient is not None:
                        gradients[name] = gradients.get(name, 0) + gradient
                        sizes[name] = sizes.get(name, 0) + gradient.norm()
                loss += here.item()
                terms += (given.abs().sum() * scale).item()
        results["loss"], results["terms"] = torch.tensor([loss]), torch.tensor([terms])
        for name, gradient in gradients.items():
            results[f"gradient.{name}"], results[f"size.{name}"] = gradient, sizes[name].reshape(1)
        return {name: value.contiguous().clone() for name, value in results.items()}


for folder in map(Path, sys.argv[1:]):
    save_file(Step(folder).results(), folder / "torch.safetensors")
