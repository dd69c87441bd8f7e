"""Answers what AReaL's wrapper and the launcher ask of a server: health, models, pauses, weights. It generates nothing."""

import argparse
import http.server
import json


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({"data": [{"id": "stand-in"}]})

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.reply({"success": True})

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


parser = argparse.ArgumentParser()
parser.add_argument("--host", required=True)
parser.add_argument("--port", type=int, required=True)
arguments, _ = parser.parse_known_args()
print(f"stand-in for SGLang on {arguments.host}:{arguments.port}", flush=True)
http.server.ThreadingHTTPServer((arguments.host, arguments.port), Server).serve_forever()
