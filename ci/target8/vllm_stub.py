"""A stand-in for `vllm serve`: the routes and flags that paravt-bench uses, one answer to every question.

    vllm_stub.py serve MODEL [--host HOST] [--port PORT] [any other flag of vLLM]

STUB_SECONDS is how long an answer takes, half to one and a half of it by the question, so that samples end one after
another; those of a few tokens, with which a server is tried, take none. Each answered question is a line of JSON in the
file STUB_ASKED: port, GPU, and the SHA-256 of its messages.
"""

import argparse
import hashlib
import http.server
import json
import os
import sys
import time

ANSWER = "<think>The first option is what the frames show.</think><answer>A</answer>"
FEW = 8


def flags():
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    # The release's other flags change nothing here.
    return parser.parse_known_args()


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        routes = {
            "/health": {},
            "/version": {"version": "0.17.1"},
            "/v1/models": {"object": "list", "data": [{"id": given.model, "object": "model", "max_model_len": 65536}]},
        }
        self.reply(routes.get(self.path, {"error": "Not Found"}), 200 if self.path in routes else 404)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions":
            return self.reply({"error": "Not Found"}, 404)
        if asked.get("max_tokens", 0) > FEW:
            messages = hashlib.sha256(json.dumps(asked["messages"]).encode()).hexdigest()
            time.sleep(float(os.environ.get("STUB_SECONDS", "0.3")) * (0.5 + int(messages[:4], 16) / 0x10000))
            line = json.dumps({"port": given.port, "gpu": GPU, "messages": messages})
            if "STUB_ASKED" in os.environ:
                # One write: eight servers share the file.
                with open(os.environ["STUB_ASKED"], "a") as file:
                    file.write(line + "\n")
        message = {"role": "assistant", "content": ANSWER}
        self.reply({
            "id": "chatcmpl-stub", "object": "chat.completion", "created": 0, "model": given.model,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520},
        })


given, others = flags()
GPU = os.environ.get("CUDA_VISIBLE_DEVICES")
print(f"stand-in of vLLM on port {given.port}, CUDA_VISIBLE_DEVICES={GPU}, {' '.join(others)}", flush=True)
try:
    http.server.ThreadingHTTPServer((given.host, given.port), Server).serve_forever()
except KeyboardInterrupt:
    sys.exit(130)
