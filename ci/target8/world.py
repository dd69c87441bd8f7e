"""The training world of paravt-nano as the release's training data: world.py NANO BASE FOLDER [FRAMES]

NANO is the stage `data` of `reproduce paravt-nano` and BASE its stage `base`. FOLDER/model is the base model, FOLDER/rows
the parquet files with the published kind of paths, FOLDER/media what the published archives hold. The schema of the tool,
the prompt of the sub-agent and the frames are those of the release's reinforcement learning, from its own code. FRAMES is
the most of an overview, as `max_frames` of the recipe [default: 8].
"""

import json
import pathlib
import shutil
import sys

import pyarrow
import pyarrow.parquet
from paravt.rl.subagents.crop_video.cropped_video import CroppedVideoSubagent
from paravt.rl.subagents.manager import SubagentManager
from paravt.rl.workflow import HierarchicalAgentConfig, HierarchicalAgentWorkflow
from qwen_vl_utils import fetch_video
from torchvision.transforms.functional import to_pil_image

VIDEOS, PICTURES = "longvt_source/videor1", "selfqa"

class World:
    def __init__(self, nano, root, frames):
        self.nano, self.media, self.frames = nano, root / "media", frames
        (self.media / PICTURES).mkdir(parents=True, exist_ok=True)
        shutil.copytree(nano / "videos", self.media / VIDEOS, dirs_exist_ok=True)
        self.agent = HierarchicalAgentWorkflow.__new__(HierarchicalAgentWorkflow)
        self.agent.subagent_manager = SubagentManager("crop_video", {"crop_video": {}})
        self.agent.config = HierarchicalAgentConfig(fps=1, max_frames=frames, max_pixels=50176, min_pixels=784)
        self.crop = CroppedVideoSubagent()

    def picture(self, name, image):
        path = self.media / PICTURES / f"{name}.png"
        if not path.exists():
            image.save(path)
        return {"type": "image_url", "image_url": {"url": f"{PICTURES}/{path.name}"}}

    def overview(self, video):
        images, parts, _ = self.agent.prepare_video_contents(str(self.nano / video), self.frames)
        images = iter(enumerate(images))
        name = pathlib.Path(video).stem
        return [part if part["type"] == "text" else self.picture("{}_{}".format(name, *(shown := next(images))), shown[1])
                for part in parts]

    def cropped(self, video, start, end):
        # The arguments of CroppedVideoSubagent.execute.
        frames = fetch_video({"type": "video", "video": f"file://{self.nano / video}", "fps": 1, "min_frames": 1,
                              "max_frames": 16, "min_pixels": 784, "max_pixels": 50176, "video_start": start,
                              "video_end": end})
        name = f"{pathlib.Path(video).stem}_{start}-{end}"
        return [self.picture(f"{name}_{number}", to_pil_image(frame.byte())) for number, frame in enumerate(frames)]

    def row(self, messages):
        """A row as the release's reinforcement learning asks; None for one without the tool, which keeps its video."""
        tools = self.agent.tools_system_message
        for message in messages:
            shown = next((part["video_url"] for part in message["content"] if "video_url" in part), None)
            if message["role"] == "system" and "crop_video" in message["content"][0]["text"]:
                message["content"][0]["text"] += "\n\n" + tools
            elif message["role"] == "system":
                return None
            if shown:
                video, text = shown["url"].removeprefix("file://"), message["content"][-1]["text"]
                if "nframes" in shown:
                    parts = self.overview(video)
                else:
                    window = shown["video_start"], shown["video_end"]
                    parts = self.cropped(video, *window)
                    text = self.crop.build_prompt("", start_time=window[0], end_time=window[1])
                message["content"] = [*parts, {"type": "text", "text": text}]
        return messages


def published(video):
    return f"{VIDEOS}/{pathlib.Path(video).name}"


def main():
    nano, base, root = (pathlib.Path(name).resolve() for name in sys.argv[1:4])
    frames = int(sys.argv[4]) if len(sys.argv) > 4 else 8
    (root / "rows").mkdir(parents=True, exist_ok=True)
    shutil.copytree(base, root / "model", ignore=shutil.ignore_patterns("stage.json", "*.txt"))
    world, rows = World(nano, root, frames), {"selftrace_15k3": [], "tvg_6k3": []}
    for row in pyarrow.parquet.read_table(nano / "paravt_sft_nano.parquet")["messages"].to_pylist():
        asked = world.row(json.loads(row))
        if asked is None:
            asked = json.loads(row)
            for message in asked:
                for part in message["content"]:
                    if "video_url" in part:
                        part["video_url"] = {"url": published(part["video_url"]["url"])}
            rows["tvg_6k3"].append(json.dumps(asked))
        else:
            rows["selftrace_15k3"].append(json.dumps(asked))
    for name, texts in rows.items():
        pyarrow.parquet.write_table(pyarrow.table({"messages": texts}), root / f"rows/paravt_sft_{name}.parquet")
    prompts = pyarrow.parquet.read_table(nano / "paravt_rl_nano.parquet").to_pylist()
    for prompt in prompts:
        prompt["videos"] = [{"video": published(video["video"])} for video in prompt["videos"]]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(prompts), root / "rows/paravt_rl_diverse_4k4.parquet")


main()
