"""SGLang's routes as AReaL asks them, over transformers on the CPU: sglang.launch_server --model-path MODEL --host --port

It generates with the model's weights, from ids with the placeholders of the frames already in them, gives the
log-probabilities under the temperature, aborts what is under way when it is paused, and takes new weights from the
trainers' group (gloo) or from a folder. Of SGLang's other flags and sampling parameters it has none.
"""

import argparse
import base64
import concurrent.futures
import contextlib
import http.server
import io
import json
import queue
import threading

import torch
import torch.distributed as dist
from areal.utils.distributed import init_custom_process_group
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor, StoppingCriteria

# Requests that are answered together.
TOGETHER = 16


class Paused(StoppingCriteria):
    def __init__(self, is_open):
        self.is_open = is_open

    def __call__(self, ids, scores, **_):
        return torch.full((len(ids),), not self.is_open.is_set())


class Engine:
    """A model, and a thread that answers what waits together."""

    def __init__(self, path):
        self.lock, self.is_open, self.groups, self.waiting = threading.Lock(), threading.Event(), {}, queue.Queue()
        self.is_open.set()
        self.images = AutoProcessor.from_pretrained(path).image_processor
        self.load(path)
        threading.Thread(target=self.work, daemon=True).start()

    def load(self, path):
        self.model = AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32).eval()
        names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
        # A sampled placeholder would want a frame; SGLang does not suppress them, and large models do not sample them.
        self.placeholders = [getattr(self.model.config, name) for name in names]

    def generate(self, asked):
        how = asked["sampling_params"]
        assert how["temperature"] > 0 and how["top_p"] == 1 and not how.get("stop"), f"not built: {how}"
        frames = [Image.open(io.BytesIO(base64.b64decode(frame.split(",")[-1]))) for frame in asked["image_data"] or []]
        answer = concurrent.futures.Future()
        self.waiting.put((asked["input_ids"], [frame.convert("RGB") for frame in frames], how, answer))
        return answer.result()

    def work(self):
        while True:
            batch = [self.waiting.get()]
            self.is_open.wait()
            while len(batch) < TOGETHER and not self.waiting.empty():
                batch.append(self.waiting.get())
            try:
                answers = self.together(*zip(*batch))
            except Exception as error:
                answers = [error] * len(batch)
            for (*_, answer), value in zip(batch, answers):
                answer.set_exception(value) if isinstance(value, Exception) else answer.set_result(value)

    def together(self, ids, frames, how, _):
        width, heat = max(map(len, ids)), how[0]["temperature"]
        pad = [[0] * (width - len(row)) for row in ids]
        inputs = {"input_ids": torch.tensor([before + row for before, row in zip(pad, ids)]),
                  "attention_mask": torch.tensor([before + [1] * len(row) for before, row in zip(pad, ids)])}
        if any(frames):
            inputs |= self.images(images=sum(frames, []), return_tensors="pt")
        limits = [asked["max_new_tokens"] for asked in how]
        with self.lock, torch.no_grad():
            made = self.model.generate(
                **inputs, max_new_tokens=max(limits), do_sample=True, temperature=heat, top_k=0,
                suppress_tokens=self.placeholders, stopping_criteria=[Paused(self.is_open)],
                output_logits=True, return_dict_in_generate=True)
        scores = torch.log_softmax(torch.stack(made.logits, 1) / heat, -1)
        end = self.model.generation_config.eos_token_id
        return [self.answer(row[width:].tolist(), score, limit, end if isinstance(end, list) else [end])
                for row, score, limit in zip(made.sequences, scores, limits)]

    def answer(self, new, scores, limit, ends):
        length = next((at + 1 for at, token in enumerate(new) if token in ends), len(new))
        new = new[:min(length, limit)]
        reason = "stop" if new[-1] in ends else "length" if len(new) == limit else "abort"
        tokens = [[row[token].item(), token, None] for row, token in zip(scores, new)]
        return {"text": "", "meta_info": {"finish_reason": {"type": reason}, "output_token_logprobs": tokens}}

    def join(self, asked):
        self.groups[asked["group_name"]] = init_custom_process_group(
            backend=asked["backend"], init_method=f"tcp://{asked['master_address']}:{asked['master_port']}",
            world_size=asked["world_size"], rank=asked["rank_offset"], group_name=asked["group_name"])

    def receive(self, asked):
        weights = dict(self.model.named_parameters(remove_duplicate=False))
        with self.lock, torch.no_grad():
            for name, dtype, shape in zip(asked["names"], asked["dtypes"], asked["shapes"]):
                sent = torch.empty(shape, dtype=getattr(torch, dtype))
                dist.broadcast(sent, src=0, group=self.groups[asked["group_name"]])
                weights[name].copy_(sent)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments, _ = parser.parse_known_args()
    torch.set_num_threads(1)
    engine = Engine(arguments.model_path)

    def from_disk(asked):
        with engine.lock:
            engine.load(asked["model_path"])

    routes = {
        "/generate": engine.generate, "/init_weights_update_group": engine.join,
        "/update_weights_from_distributed": engine.receive, "/update_weights_from_disk": from_disk,
        "/pause_generation": lambda _: engine.is_open.clear(), "/continue_generation": lambda _: engine.is_open.set()}

    class Listener(http.server.ThreadingHTTPServer):
        # A step of rollouts connects at once.
        request_queue_size = 1024

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.reply(200 if self.path in ("/health", "/v1/models") else 404, {"data": [{"id": arguments.model_path}]})

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            if self.path not in routes:
                return self.reply(404, {"error": f"no route {self.path}"})
            try:
                code, value = 200, routes[self.path](asked) or {"success": True, "message": ""}
            except Exception as error:
                code, value = 400, {"error": f"{type(error).__name__}: {error}"}
                print(self.path, value, flush=True)
            self.reply(code, value)

        def reply(self, code, value):
            body = json.dumps(value).encode()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    print(f"{arguments.model_path} on {arguments.host}:{arguments.port}", flush=True)
    Listener((arguments.host, arguments.port), Server).serve_forever()


main()
