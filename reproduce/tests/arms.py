"""Loss and gradients of one step of reinforcement learning by transformers and torch, in float64: arms.py FOLDER

FOLDER has step.json (folders of policy and reference, knobs, passes, sequences) and step.safetensors (tokens, positions and
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

folder = Path(sys.argv[1])
case = json.loads((folder / "step.json").read_text())
tensors = load_file(folder / "step.safetensors")
knobs, sequences = case["knobs"], case["sequences"]


def load(path):
    model = Qwen3VLForConditionalGeneration.from_pretrained(path, dtype=torch.float64, attn_implementation="eager")
    return model.eval()


def logprobs(model, place):
    """Log-probability of every token but the first, given those before it."""
    media = sequences[place]["media"]
    ids = tensors[f"{place}.ids"].long()
    grids = [torch.tensor([medium["grid"]]) for medium in media]
    patches = [tensors[f"{place}.patches.{number}"].double() for number in range(len(media))]
    inputs = {}
    for kind, is_video in (("image", False), ("video", True)):
        chosen = [number for number, medium in enumerate(media) if medium["is_video"] == is_video]
        if chosen:
            inputs["pixel_values_videos" if is_video else "pixel_values"] = torch.cat([patches[number] for number in chosen])
            inputs[f"{kind}_grid_thw"] = torch.cat([grids[number] for number in chosen])
    positions = tensors[f"{place}.positions"].long().T[:, None]
    logits = model(input_ids=ids[None], position_ids=positions, **inputs).logits[0, :-1]
    return torch.log_softmax(logits / knobs["temperature"], -1).gather(1, ids[1:, None])[:, 0]


def trained(place):
    """Rows that predict a trained token."""
    return torch.tensor(sequences[place]["loss_mask"][1:], dtype=torch.bool)


results = {}
if case["reference"]:
    model, found = load(case["reference"]), []
    with torch.no_grad():
        for place, sequence in enumerate(sequences):
            values = torch.where(trained(place), logprobs(model, place), 0.0)
            sequence["reference"] = values.tolist() + [0.0]
            found.append(torch.cat([values, torch.zeros(1)]))
    results["reference"] = torch.cat(found)
for sequence in sequences:
    # Without a KL term: its weight is 0.
    sequence["reference"] = sequence["reference"] or sequence["behaviour"]
    sequence["new"] = sequence["prox"] = [0.0] * len(sequence["loss_mask"])
advantages = objectives.batch({"knobs": knobs, "sequences": sequences})["tokens"]

policy = load(case["policy"])
count = lambda places: sum(int(trained(place).sum()) for place in places)
total = count([place for part in case["passes"] for place in part])
# Where every ratio is 1 and advantages are normalised the loss is nearly 0: its terms say what a difference is large against.
loss = terms = 0.0
gradients, sizes = {}, {}
for part in case["passes"]:
    scale = 1 / max(total, 1)
    if knobs["aggregation"] == "micro_batches":
        scale = 1 / (max(count(part), 1) * len(case["passes"]))
    for place in part:
        rows = trained(place)
        new = logprobs(policy, place)[rows]
        behaviour = torch.tensor(sequences[place]["behaviour"][1:])[rows]
        given = torch.tensor(advantages[place][:-1])[rows]
        # A mean over its tokens.
        here = objectives.policy_loss(new, new.detach(), behaviour, given, knobs) * len(new) * scale
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
save_file({name: value.contiguous().clone() for name, value in results.items()}, folder / "torch.safetensors")
