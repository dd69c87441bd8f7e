"""Makes a real vLLM say a script: `vllm serve MODEL --logits-processors scripted_logits:Script`, with ci/servers on PYTHONPATH.

A request with `"vllm_xargs": {"script": TEXT}` is answered by TEXT, token by token, and the end of the turn; all else (the
chat template, pictures and videos, stop strings, parsers, a prefilled turn) is vLLM's own. Every request has to have one.
"""
import torch
from transformers import AutoTokenizer
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor


class Script(AdapterLogitsProcessor):
    def __init__(self, vllm_config, device, is_pin_memory):
        super().__init__(vllm_config, device, is_pin_memory)
        self.tokenizer = AutoTokenizer.from_pretrained(vllm_config.model_config.model)

    @classmethod
    def validate_params(cls, sampling_params):
        if "script" not in (sampling_params.extra_args or {}):
            raise ValueError("this server says scripts: send vllm_xargs with one")

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params):
        tokens = self.tokenizer.encode(params.extra_args["script"]) + [self.tokenizer.eos_token_id]

        def only_the_next(output: list, logits: torch.Tensor) -> torch.Tensor:
            forced = torch.full_like(logits, float("-inf"))
            forced[tokens[min(len(output), len(tokens) - 1)]] = 0.0
            return forced

        return only_the_next
