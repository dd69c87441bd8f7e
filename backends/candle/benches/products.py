"""torch's side of products.rs: reads `kind m k n` lines, answers each with the CPU seconds of one call."""

import sys
import time

import torch

torch.set_num_threads(1)
torch.manual_seed(0)
tensors = {}


def operation(kind, m, k, n):
    x, w = torch.randn(m, k), torch.randn(n, k)
    if kind == "bf16":
        # torch has no product of f32 by bf16: the weight is widened first.
        w = w.bfloat16()
        return lambda: torch.nn.functional.linear(x, w.float())
    if kind == "pairs":
        x, w = x.bfloat16(), w.bfloat16()
    if kind in ("f32", "pairs"):
        return lambda: torch.nn.functional.linear(x, w)
    if kind == "grad":
        g = torch.randn(m, n)
        return lambda: (g @ w, g.t() @ x)
    q, kv = torch.randn(1, n, m, k), torch.randn(2, 1, n, m, k)
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, kv[0], kv[1], is_causal=True)


with torch.inference_mode():
    for line in sys.stdin:
        kind, *sizes = line.split()
        key = (kind, *map(int, sizes))
        if key not in tensors:
            tensors = {key: operation(*key)}
            tensors[key]()
        start = time.process_time()
        tensors[key]()
        print(time.process_time() - start, flush=True)
