"""Objectives by torch: padded tensors and autograd, formula by formula.

    objectives.py < CASES.json > RESULTS.json

CASES has three lists; RESULTS has under each name one result per case, in order:
    batches    {knobs, sequences: [{loss_mask, behaviour, reference, reward, group, prox, new}]}
               -> {scaled, normalised, raw, tokens, kl_mean, loss, gradient}
               behaviour and loss_mask by token, the others by position; gradient by new log-probability
    softmax    {logits, targets, temperature, by_logprob, by_entropy}
               -> {logprobs, entropy, gradient, cross_entropy, cross_entropy_gradient}
    chains     {knobs, logits, targets, advantages, prox, behaviour} -> {loss, gradient} by logits
Everything is computed in float64; logits are float32 numbers.
"""
import json
import sys

import torch

torch.set_default_dtype(torch.float64)


def padded(rows: list) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=torch.float64) for row in rows], True)


def masked_normalise(values: torch.Tensor, mask: torch.Tensor, eps: float) -> torch.Tensor:
    count = mask.sum()
    mean = (values * mask).sum() / count
    variance = ((values - mean) ** 2 * mask).sum() / (count - 1)
    return (values - mean) * mask / (variance.sqrt() + eps)


def group_normalise(scores: torch.Tensor, groups: list, knobs: dict) -> torch.Tensor:
    out = torch.zeros_like(scores)
    groups = torch.tensor(groups)
    for group in groups.unique():
        of = scores[groups == group]
        if knobs["group_norm"] == "mean":
            out[groups == group] = of - of.mean() if len(of) > 1 else of
        else:
            out[groups == group] = (of - of.mean()) / (of.std() + knobs["norm_eps"])
    return out


def policy_loss(new, prox, behaviour, advantages, knobs):
    """Mean over trained tokens, all arguments (tokens)."""
    ratio = (new - prox).exp()
    above = knobs["eps_clip"] if knobs["eps_clip_higher"] is None else knobs["eps_clip_higher"]
    losses = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1 - knobs["eps_clip"], 1 + above))
    if knobs["c_clip"] is not None:
        losses = torch.minimum(losses, knobs["c_clip"] * advantages.abs())
    if knobs["use_decoupled_loss"]:
        weights = (prox - behaviour).exp()
        losses = losses * weights * (weights <= knobs["behav_imp_weight_cap"])
    return losses.mean()


def batch(case: dict) -> dict:
    knobs, sequences = case["knobs"], case["sequences"]
    column = lambda name: padded([sequence[name] for sequence in sequences])
    lengths = torch.tensor([len(sequence["loss_mask"]) for sequence in sequences])
    mask = torch.roll(column("loss_mask"), -1, -1)
    mask[:, -1] = 0
    behaviour = torch.roll(column("behaviour"), -1, -1) * mask
    reference = column("reference") * mask
    rewards = torch.tensor([sequence["reward"] for sequence in sequences])

    scaled = torch.clip(
        (rewards + knobs["reward_bias"]) * knobs["reward_scaling"], -knobs["reward_clip"], knobs["reward_clip"]
    )
    normalised = group_normalise(scaled, [sequence["group"] for sequence in sequences], knobs)
    kl = torch.clamp(behaviour - reference, -knobs["kl_clamp"], knobs["kl_clamp"])
    token_rewards = -knobs["kl_coef"] * kl
    rows = torch.arange(len(sequences))
    token_rewards[rows, lengths - 1] = 0
    if knobs["reward_position"] == "predicts_last":
        token_rewards[rows, torch.clip(lengths - 2, min=0)] += normalised
    else:
        places = torch.arange(mask.shape[1]).expand_as(mask)
        token_rewards[rows, torch.where(mask > 0, places, -1).amax(1)] += normalised

    # Column by column from the back; what is not trained passes on what it was given.
    raw = torch.zeros_like(token_rewards)
    for t in reversed(range(mask.shape[1] - 1)):
        following = raw[:, t + 1]
        here = token_rewards[:, t] + knobs["discount"] * knobs["gae_lambda"] * following
        raw[:, t] = torch.where(mask[:, t] > 0, here, following)
    tokens = masked_normalise(raw, mask, knobs["norm_eps"]) if knobs["adv_norm"] else raw * mask

    new = column("new").requires_grad_()
    trained = mask > 0
    loss = policy_loss(*(of[trained] for of in (new, column("prox"), behaviour, tokens)), knobs)
    loss.backward()
    ragged = lambda values: [row[:length].tolist() for row, length in zip(values, lengths)]
    return {
        "scaled": scaled.tolist(), "normalised": normalised.tolist(), "raw": ragged(raw), "tokens": ragged(tokens),
        "kl_mean": ((kl * mask).sum() / mask.sum()).item(), "loss": loss.item(), "gradient": ragged(new.grad),
    }


def log_softmax(case: dict):
    logits = torch.tensor(case["logits"], requires_grad=True)
    logprobs = torch.log_softmax(logits / case["temperature"], -1)
    chosen = logprobs.gather(-1, torch.tensor(case["targets"])[:, None]).squeeze(-1)
    return logits, chosen, -(logprobs.exp() * logprobs).sum(-1)


def softmax(case: dict) -> dict:
    logits, logprobs, entropy = log_softmax(case)
    (logprobs @ torch.tensor(case["by_logprob"]) + entropy @ torch.tensor(case["by_entropy"])).backward()
    cross_entropy = torch.nn.functional.cross_entropy(logits, torch.tensor(case["targets"]))
    return {"logprobs": logprobs.tolist(), "entropy": entropy.tolist(), "gradient": logits.grad.tolist(),
            "cross_entropy": cross_entropy.item(),
            "cross_entropy_gradient": torch.autograd.grad(cross_entropy, logits)[0].tolist()}


def chain(case: dict) -> dict:
    logits, new, _ = log_softmax({**case, "temperature": case["knobs"]["temperature"]})
    given = [torch.tensor(case[name]) for name in ("prox", "behaviour", "advantages")]
    loss = policy_loss(new, *given, case["knobs"])
    loss.backward()
    return {"loss": loss.item(), "gradient": logits.grad.tolist()}


if __name__ == "__main__":
    cases = json.load(sys.stdin)
    kinds = {"batches": batch, "softmax": softmax, "chains": chain}
    json.dump({name: [kind(case) for case in cases[name]] for name, kind in kinds.items()}, sys.stdout)
