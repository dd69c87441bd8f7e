"""A stand-in of the same structure as the upstream driver, in words of our own: for tests of the importer."""
import json
import os

from paravt.eval import utils

TOOL_SCHEMA = json.dumps({"type": "function", "function": {"name": "crop_video", "required": ["start_time", "é"]}})

DIRECT_SYSTEM = (
    "Direct words, "
    "in two pieces."
)
REASONING_SYSTEM = "Reasoning words."
GENERAL_AGENTIC_SYSTEM = """General words with {tool_schema}
and {{"braces": 0}} that are doubled."""
MINIMAL_AGENTIC_SYSTEM = """Minimal words: {tool_schema}"""

DEFAULT_MAX_TOKENS = 123


def eval_one(client, sample, max_turns, prompt_mode):
    try:
        vpath = sample["video_path"]
        q_text = sample["question"]
        if prompt_mode.startswith("agentic_") and "the path" not in q_text.lower():
            q_text = f"{q_text} (the path: {os.path.basename(vpath)})"
        for turn in range(max_turns + 1):
            for tc in client.calls():
                st, et = 0.0, 1.0
                cropped = utils.crop_frames(vpath, st, et)
                if cropped:
                    client.say({"text": (f"<seen>{len(cropped)} of "
                                         f"{st:.1f} to {et:.1f}</seen>")})
                else:
                    client.say({"role": "user", "content": (f"<lost>{st:.1f}-{et:.1f}</lost>")})
            if turn == max_turns - 1:
                if sample["is_mcq"]:
                    force = "Letter now."
                    force_max = 6
                else:
                    force = (
                        "Times now: "
                        "'X - Y'."
                    )
                    force_max = 12
                client.say({"role": "user", "content": force})
    except Exception as error:
        return {"error": str(error)}
