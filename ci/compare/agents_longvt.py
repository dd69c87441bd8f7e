"""LongVT's own evaluation for ci/compare/agents.py: lmms-eval's `async_openai`, the release's tasks and its tool server, as
they are.

The model class talks to a scripted server. The tool's server runs in this process instead of one of its own; where the
video lies is its name in the folder, as paravt-bench shows it.
"""
import asyncio
import contextlib
import os
import re
import sys
import types
from pathlib import Path

from agents_shared import lettered, quietly
from released import load


def longvt(checkout: str, folder: str, serve):
    harness = os.path.join(os.path.dirname(checkout), "lmms-eval")
    sys.path[:0] = [harness, checkout]
    os.environ.update(FORCE_QWENVL_VIDEO_READER="decord", OPENAI_API_KEY="none", USE_LLM_JUDGE="False", HF_HUB_OFFLINE="1")
    from lmms_eval.mcp import client as mcp_client
    from lmms_eval import protocol
    from lmms_eval.models.chat.async_openai import AsyncOpenAIChat

    # Since v0.7 it keeps encoded frames by the `id` of an image that is freed by then, and one picture in five was another
    # moment's here. The releases of LongVT's time (654bd6c) encode each frame.
    encode = protocol.encode_image_to_base64
    protocol.encode_image_to_base64 = lambda image, **settings: encode(image, **{**settings, "cache": None})

    tool_server = os.path.join(checkout, "examples/video_tools/mcp_server.py")
    tool = load("mcp_server", tool_server)
    mcp_client.stdio_client = in_process(tool.app)
    # It opens `file://PATH`, which is a file where PATH begins at the root.
    fetch = tool.fetch_video
    tool.fetch_video = lambda video: fetch({**video, "video": os.path.abspath(video["video"].removeprefix("file://"))})
    moments = load("eval_tvg", os.path.join(harness, "lmms_eval/tasks/charades_sta/eval_tvg.py"))
    names = {"videomme": ("videomme", "videomme_tool"), "lvbench": ("lvbench", "lvbench_tool"),
             "longvideobench": ("longvideobench", "longvideobench_val_v_tool"),
             "charades": ("charades_sta", "charades_tool")}
    settings = Path(checkout, "examples/eval/run_eval.sh").read_text(encoding="utf-8")
    # `--model_args …,fps=1,max_frames=$MAX_FRAME_NUM,max_pixels=50176,…`
    fps, pixels = (int(re.search(rf",{name}=(\d+)", settings).group(1)) for name in ("fps", "max_pixels"))
    frames = int(re.search(r"MAX_FRAME_NUM=\$\{4:-(\d+)\}", settings).group(1))
    server = serve()
    loaded = {}

    def task(split: str):
        if split not in loaded:
            room, description = names[split]
            path = Path(checkout, "lmms_eval_tasks", room)
            text = (path / f"{description}.yaml").read_text(encoding="utf-8")
            loaded[split] = load(f"longvt_{room}", path / "utils.py"), text
        return loaded[split]

    def run(split: str, sample: dict, path: str):
        module, description = task(split)
        video = os.path.basename(path)
        for name in dir(module):
            if re.search("_doc_to_visual(_v)?$", name):
                setattr(module, name, lambda *_: [video])
        of = lambda key: re.search(rf'{key}: "(.*)"', description)
        prompts = {key: of(key).group(1) if of(key) else "" for key in ("pre_prompt", "post_prompt")}
        function = re.search(r"doc_to_messages: !function utils\.(\w+)", description).group(1)
        tokens = int(re.search(r"max_new_tokens: (\d+)", description).group(1))
        question, gold = sample["question"], sample["gold"]
        document = {
            "videomme": lambda: {"question": question["stem"], "options": lettered(sample), "answer": gold["answer"],
                                 **dict.fromkeys(("domain", "sub_category", "task_type", "question_id", "duration"), "x")},
            "lvbench": lambda: {"question": question["stem"], "answer": gold["answer"]},
            "longvideobench": lambda: {
                "question": question["stem"], "correct_choice": question["letters"].index(gold["answer"]),
                **{f"option{i}": (question["options"] + ["N/A"] * 5)[i] for i in range(5)}},
            "charades": lambda: {"video": video, "caption": question["stem"], "timestamp": [gold["start"], gold["end"]]},
        }[split]()
        model = AsyncOpenAIChat(model_version="scripted", base_url=server.url, api_key="none", mcp_server_path=tool_server,
                                fps=fps, max_frames=frames, max_pixels=pixels, num_cpus=1)
        model.task_dict = {"task": {"split": [document]}}
        messages = lambda one: getattr(module, function)(one, prompts)
        request = types.SimpleNamespace(args=("", messages, {"max_new_tokens": tokens}, 0, "task", "split"))
        server.requests.clear()
        with quietly(os.path.dirname(path)):
            try:
                text = asyncio.run(model.maybe_forward_with_tool(request, 0))[0]
            except NameError as error:
                # The harness repeats the sample five times, then scores a sentence about that.
                text = f"[LMMS_EVAL_REQUEST_FAILED after 5 retries] {error}"
            value = score(split, module, document, text)
        shown = [dict(one) for one in server.requests]
        for one in shown:
            # What the API does by default where there are tools.
            assert one["parameters"].pop("tool_choice") == "auto"
        return shown, float(value)

    def score(split: str, module, document: dict, text: str) -> float:
        if split != "charades":
            return getattr(module, f"{split}_process_results")(document, [text])["acc_score"]
        submission = module.temporal_grounding_process_results_generation(document, [text])["submission"]
        found = moments.extract_time(next(iter(submission.values())))
        return moments.iou(document["timestamp"], found[0]) if len(found) == 1 else 0.0

    return run


def in_process(app):
    """A `stdio_client` that is connected to a server of this process."""
    import anyio
    from mcp.shared.memory import create_client_server_memory_streams

    @contextlib.asynccontextmanager
    async def connected(server):
        low = app._mcp_server
        async with create_client_server_memory_streams() as (client, served):
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: low.run(*served, low.create_initialization_options()))
                try:
                    yield client
                finally:
                    group.cancel_scope.cancel()

    return connected
