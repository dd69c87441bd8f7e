"""Saves a tiny, randomly initialised Qwen2.5-VL with the files of a published one: ci/tiny_qwen25vl.py FOLDER

The sibling of tiny_qwen3vl.py: same tokenizer and chat template; windowed vision attention, sectioned
rotary positions, biased attention and a repetition penalty as published.
"""
import sys

from tiny_qwen3vl import TEMPLATE, TOKENS, make_tokenizer, save
from transformers import (Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor,
                          Qwen2VLImageProcessor, Qwen2VLVideoProcessor)


def make_model(tokenizer, text=None, vision=None, tied=False) -> Qwen2_5_VLForConditionalGeneration:
    token = {name: tokenizer.convert_tokens_to_ids(text) for name, text in TOKENS.items()}
    text = {"vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
            "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "bos_token_id": None,
            "eos_token_id": token["end"], "pad_token_id": token["pad"], "tie_word_embeddings": tied,
            "rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [4, 6, 6]}} | (text or {})
    vision = {"depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "patch_size": 14,
              "temporal_patch_size": 2, "spatial_merge_size": 2, "window_size": 112, "tokens_per_second": 2,
              "fullatt_block_indexes": [1], "out_hidden_size": text["hidden_size"]} | (vision or {})
    model = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=tied, image_token_id=token["image"],
        video_token_id=token["video"], vision_start_token_id=token["vision_start"],
        vision_end_token_id=token["vision_end"]))
    model.generation_config.repetition_penalty = 1.05
    return model


def make_processor(tokenizer) -> Qwen2_5_VLProcessor:
    return Qwen2_5_VLProcessor(image_processor=Qwen2VLImageProcessor(), tokenizer=tokenizer,
                               video_processor=Qwen2VLVideoProcessor(), chat_template=TEMPLATE)


if __name__ == "__main__":
    save(sys.argv[1], make_model, make_processor)
