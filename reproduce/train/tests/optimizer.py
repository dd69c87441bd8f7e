"""What torch.optim.AdamW makes of given gradients: JSON on standard input, JSON on standard output.

In: start (a list for each weight), gradients (by step, by weight: a list, or null where no loss reached it) and the
knobs. Out: the weights after the last step.
"""
import json
import sys

import torch

case = json.load(sys.stdin)
weights = [torch.nn.Parameter(torch.tensor(values)) for values in case["start"]]
optimizer = torch.optim.AdamW(weights, lr=case["learning_rate"], betas=(case["beta1"], case["beta2"]),
                              eps=case["eps"], weight_decay=case["weight_decay"])
for gradients in case["gradients"]:
    for weight, gradient in zip(weights, gradients):
        weight.grad = None if gradient is None else torch.tensor(gradient)
    torch.nn.utils.clip_grad_norm_(weights, case["max_grad_norm"])
    optimizer.step()
print(json.dumps([weight.tolist() for weight in weights]))
