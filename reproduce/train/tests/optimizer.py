"""What torch.optim.AdamW makes of given gradients: JSON on standard input, JSON on standard output.

In: start (a list for each weight), gradients (by step, by weight: a list, or null where no loss reached it),
the knobs, and the number type of weights, gradients and moments (float32 where not given). Out: the weights after
the last step; with "steps", after each step the norm, the weights and both moments.
"""
import json
import sys

import torch

case = json.load(sys.stdin)
dtype = getattr(torch, case.get("dtype", "float32"))
weights = [torch.nn.Parameter(torch.tensor(values).to(dtype)) for values in case["start"]]
optimizer = torch.optim.AdamW(weights, lr=case["learning_rate"], betas=(case["beta1"], case["beta2"]),
                              eps=case["eps"], weight_decay=case["weight_decay"])
steps = []
for number, gradients in enumerate(case["gradients"]):
    for weight, gradient in zip(weights, gradients):
        weight.grad = None if gradient is None else torch.tensor(gradient).to(dtype)
    for group in optimizer.param_groups:
        group["lr"] = case["learning_rate"] * case.get("factors", [1.0] * len(case["gradients"]))[number]
    norm = torch.nn.utils.clip_grad_norm_(weights, case["max_grad_norm"])
    optimizer.step()
    if case.get("steps"):
        moment = lambda name: [optimizer.state[weight][name].tolist() for weight in weights]
        steps.append({"norm": norm.item(), "weights": [weight.tolist() for weight in weights],
                      "first": moment("exp_avg"), "second": moment("exp_avg_sq")})
print(json.dumps(steps if case.get("steps") else [weight.tolist() for weight in weights]))
