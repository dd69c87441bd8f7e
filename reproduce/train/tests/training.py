"""What torch makes of one training batch: training.py FOLDER

Saves a small random model of each family into FOLDER/<model>, and beside it the loss, the gradients and
the weights after two AdamW steps of supervised training, and the loss and gradients of the clipped policy
objective, on the same conversations.
"""
import contextlib
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "ci"), str(ROOT / "backends/qwen-vl/tests")]
import reference
import tiny_qwen25vl
import tiny_qwen3vl

MODELS = {"qwen3": (tiny_qwen3vl, True, {"num_attention_heads": 4, "num_key_value_heads": 2},
                    {"depth": 3, "deepstack_visual_indexes": [0, 1]}),
          "qwen25": (tiny_qwen25vl, False, {"num_attention_heads": 2, "num_key_value_heads": 1}, {})}
RATE, DECAY, CLIP, TEMPERATURE, EPS, CAP = 1e-3, 0.01, 0.5, 0.7, 0.2, 5.0


def conversations(factor: int) -> list:
    cases = reference.conversations(factor)
    answer = lambda words: [{"role": "assistant", "content": words}]
    return [cases["text"] + answer("<think> B </think>"),
            cases["several"][:-1] + [{"role": "user", "content": "And now?"}] + answer("C 12 end_time"),
            cases["video"] + answer("crop_video 7")]


def example(processor, messages):
    """Inputs, and which tokens an assistant said: its words and the end of its turn."""
    closed = messages + [{"role": "user", "content": "x"}]
    text, inputs = reference.inputs_of(processor, closed)
    ids = inputs["input_ids"][0].tolist()
    encode = lambda words: processor.tokenizer.encode(words, add_special_tokens=False)
    # Without the turn that was added for the template to close the last one.
    tail = len(encode("<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"))
    for key in ("input_ids", "attention_mask", "mm_token_type_ids"):
        if key in inputs:
            inputs[key] = inputs[key][:, :-tail]
    ids, head, end = ids[:-tail], encode("<|im_start|>assistant\n"), encode("<|im_end|>")[0]
    trained, inside = [], False
    for place, token in enumerate(ids):
        inside = inside or ids[max(0, place - len(head)):place] == head
        trained.append(inside)
        inside = inside and token != end
    return inputs, torch.tensor(trained)


def logits_of(model, inputs):
    model.model.rope_deltas = None
    return model(**inputs).logits[0]


def supervised(model, batch):
    total = sum(trained[1:].sum() for _, trained in batch)
    loss = 0
    for inputs, trained in batch:
        chosen = torch.log_softmax(logits_of(model, inputs)[:-1], -1)
        chosen = chosen.gather(1, inputs["input_ids"][0][1:, None])[:, 0]
        loss = loss - chosen[trained[1:]].sum() / total
    return loss


def policy(model, batch, tokens):
    total = sum(trained[1:].sum() for _, trained in batch)
    loss = 0
    for (inputs, trained), (advantage, prox, behaviour) in zip(batch, tokens):
        new = torch.log_softmax(logits_of(model, inputs)[:-1] / TEMPERATURE, -1)
        new = new.gather(1, inputs["input_ids"][0][1:, None])[:, 0][trained[1:]]
        ratio = (new - prox).exp()
        losses = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(1 - EPS, 1 + EPS))
        weight = (prox - behaviour).exp()
        loss = loss + (losses * torch.where(weight > CAP, 0.0, weight)).sum() / total
    return loss


def gradients(model, loss, start):
    model.zero_grad()
    loss.backward()
    found = {f"{start}.{name}": weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    return found | {f"{start}_loss": loss.detach()}


def main() -> None:
    root = Path(sys.argv[1])
    torch.set_num_threads(1)
    for number, (name, (module, tied, text, vision)) in enumerate(MODELS.items()):
        folder = root / name
        folder.mkdir(parents=True)
        torch.manual_seed(number)
        tokenizer = module.make_tokenizer()
        model = module.make_model(tokenizer, text, vision, tied).eval()
        reference.randomise(model, tied)
        with torch.no_grad():
            # Milder than for sampling: gradients of saturated softmaxes are all rounding.
            for _, weight in model.named_parameters():
                if weight.ndim > 1:
                    weight.mul_(0.5)
        model.save_pretrained(folder)
        processor = module.make_processor(tokenizer)
        processor.save_pretrained(folder)
        with contextlib.chdir(folder):
            messages = conversations(32 if module is tiny_qwen3vl else 28)
            batch = [example(processor, conversation) for conversation in messages]
        tensors = gradients(model, supervised(model, batch), "sft")
        # Around the model's own log-probabilities, so that ratios and weights reach both sides of every bound.
        tokens, recorded = [], []
        with torch.no_grad():
            for inputs, trained in batch:
                own = torch.log_softmax(logits_of(model, inputs)[:-1] / TEMPERATURE, -1)
                own = own.gather(1, inputs["input_ids"][0][1:, None])[:, 0][trained[1:]]
                prox = own + 0.3 * torch.randn_like(own)
                tokens.append((torch.randn_like(own), prox, prox - 1.2 * torch.randn_like(own)))
                recorded.append([values.tolist() for values in tokens[-1]])
        tensors |= gradients(model, policy(model, batch, tokens), "policy")
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
        for _ in range(2):
            optimizer.zero_grad()
            supervised(model, batch).backward()
            tensors["norm"] = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
        tensors |= {f"after.{name}": weight.detach() for name, weight in model.named_parameters()}
        save_file({key: value.contiguous().clone() for key, value in tensors.items()}, str(folder / "training.safetensors"))
        trained = [{"ids": inputs["input_ids"][0].tolist(), "trained": mask.tolist()} for inputs, mask in batch]
        (folder / "training.json").write_text(json.dumps({"messages": messages, "examples": trained, "tokens": recorded}))


if __name__ == "__main__":
    main()
