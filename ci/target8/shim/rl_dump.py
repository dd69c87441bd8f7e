"""Writes what the release's actor was given at each step and what it made of it: $PARAVT_DUMP/step-S-rank-R.safetensors

Beside the batch (ids, positions, masks, log-probabilities, rewards, pictures) the advantages, the losses of the
micro-batches with their weights, and the norm of the gradients, from the release's own code, in float32.
"""

import os

import safetensors.torch
import torch
import torch.distributed as dist

GIVEN = ("input_ids", "attention_mask", "loss_mask", "logprobs", "rewards", "prox_logp", "ref_logp")
PATCH = 16


def pictures(values, grids):
    """The images (number, row, column, channel) of normalised patches."""
    (_, rows, columns), = {tuple(grid.tolist()) for grid in grids}
    patches = values.reshape(len(grids), rows // 2, columns // 2, 2, 2, 3, 2, PATCH, PATCH)[:, :, :, :, :, :, 0]
    images = patches.permute(0, 1, 3, 6, 2, 4, 7, 5).reshape(len(grids), rows * PATCH, columns * PATCH, 3)
    return ((images * 0.5 + 0.5) * 255).round().to(torch.uint8)


def dumped(actor):
    folder = os.environ.get("PARAVT_DUMP")
    if not folder:
        return actor

    class Dumped(actor):
        steps = 0

        def __init__(self, config, **kwargs):
            # What is compared is the arithmetic and not its rounding.
            config.dtype = "float32"
            super().__init__(config=config, **kwargs)

        def compute_advantages(self, data):
            # The release changes its input in place.
            self.kept = {name: data[name].clone().float() for name in GIVEN}
            media = data["multi_modal_input"]
            for row, found in enumerate(media):
                self.kept[f"pictures.{row}"] = pictures(found["pixel_values"], found["image_grid_thw"])
            grids = torch.cat([found["image_grid_thw"] for found in media])
            positions = self.model.model.get_rope_index(data["input_ids"], grids, None, data["attention_mask"])[0]
            done = super().compute_advantages(data)
            self.kept |= {"positions": positions.permute(1, 2, 0), "advantages": done["advantages"].clone()}
            return done

        def train_batch(self, data, loss_fn, loss_weight_fn):
            losses = []

            def noted(logprobs, entropy, batch, *args, **kwargs):
                loss = loss_fn(logprobs, entropy, batch, *args, **kwargs)
                losses.append((loss.item(), loss_weight_fn(batch).item()))
                return loss

            figures = super().train_batch(data, noted, loss_weight_fn)
            os.makedirs(folder, exist_ok=True)
            self.kept |= {name: torch.tensor([float(figures[name])]) for name in ("grad_norm", "lr")}
            self.kept["losses"] = torch.tensor(losses)
            safetensors.torch.save_file({name: value.contiguous() for name, value in self.kept.items()},
                                        f"{folder}/step-{self.steps}-rank-{dist.get_rank()}.safetensors")
            self.steps += 1
            return figures

    return Dumped
