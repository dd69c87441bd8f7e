"""A hub on this machine: builds the published repositories of a generated world and a model, and serves them.

    python ci/target8/hub.py WORLD MODEL FOLDER [TRAINING]

WORLD is what `paravt-bench data make` wrote, MODEL a model folder. FOLDER gets one folder for each repository, with
the file names of tasks/*/benchmark.toml: rows, zip archives, parts of tar archives. With TRAINING, what
ci/target8/world.py wrote, also the rows and media of the training and the base model. Prints the address, then answers the
hub's routes (revision, tree, resolve with ranges) until it is killed. Gated repositories want the token `of-this-test`.
MODELS names the models that it has [default: ParaVT/ParaVT-8B], and QWEN25 is the folder of those that have Qwen2.5 in
their names.
"""

import hashlib
import http.server
import io
import json
import os
import pathlib
import shutil
import sys
import tarfile
import tomllib
import urllib.parse
import zipfile

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "of-this-test"
MODEL = "ParaVT/ParaVT-8B"
BASE = "Qwen/Qwen3-VL-8B-Instruct"
# Files above this size are in large-file storage, as on the hub.
LARGE = 1000


def files_in(folder, names=("",)):
    for name in names:
        if (folder / name).is_dir():
            return sorted(path for path in (folder / name).iterdir() if path.is_file())
    return []


def zip_of(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            archive.write(member, member.name)
        if not members:
            archive.writestr("readme.txt", "nothing here")


def tar_of(folder, members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            archive.add(member, f"{folder}/{member.name}")
    return buffer.getvalue()


def build_split(spec, world, repository):
    hub, layout = spec["hub"], spec["layout"]
    snapshots = world / "hub" / f"datasets--{hub['repos'][0].replace('/', '--')}" / "snapshots"
    snapshot = next(snapshots.iterdir())
    target = repository / hub["annotations"]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(snapshot / hub["annotations"], target)
    videos = files_in(world, [name for name in layout["videos"] if name != "."])
    subtitles = files_in(world, layout.get("subtitles", []))
    zips = [name for name in hub["media"] if name.endswith(".zip") and "subtitle" not in name]
    parts = [name for name in hub["media"] if ".tar.part." in name]
    for number, name in enumerate(zips):
        zip_of(repository / name, videos[number :: len(zips)])
    if parts:
        whole = tar_of("videos", videos)
        size = -(-len(whole) // len(parts))
        for number, name in enumerate(parts):
            (repository / name).write_bytes(whole[number * size : (number + 1) * size])
    if subtitles and not any("subtitle" in name for name in hub["media"]):
        zip_of(repository / "subtitle.zip", subtitles)  # tasks/videomme/with_subtitles.toml
    for name in hub["media"]:
        if "subtitle" in name and name.endswith(".zip"):
            zip_of(repository / name, subtitles)
        elif "subtitle" in name:
            (repository / name).write_bytes(tar_of("subtitles", subtitles))
        elif "<" in name:
            shutil.copytree(snapshot / "videos", repository / "videos", dirs_exist_ok=True)


def build_training(training, folder):
    """Rows with the published kind of paths; archives whose members carry the whole path, as published."""
    rows, media = folder / "datasets/ParaVT/ParaVT-Parquet", folder / "datasets/ParaVT/ParaVT-Source"
    rows.mkdir(parents=True)
    media.mkdir(parents=True)
    for path in (training / "rows").iterdir():
        # The hub shows the configurations `sft` and `rl` as folders.
        config = rows / ("rl" if "_rl_" in path.name else "sft")
        config.mkdir(exist_ok=True)
        shutil.copy(path, config)
    for source, name in (("longvt_source", "videor1_0.zip"), ("selfqa", "selfqa.zip")):
        with zipfile.ZipFile(media / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted((training / "media" / source).rglob("*.*")):
                archive.write(path, path.relative_to(training / "media"))
    shutil.copytree(training / "model", folder / BASE)


def build(world, model, folder, training=None):
    """Folder and gate of every repository, by its route."""
    repositories = {}
    for path in sorted(pathlib.Path("tasks").glob("*/benchmark.toml")):
        spec = tomllib.loads(path.read_text())
        name = spec["hub"]["repos"][0]
        if not (world / "hub" / f"datasets--{name.replace('/', '--')}").is_dir():
            continue
        build_split(spec, world, folder / "datasets" / name)
        repositories[f"datasets/{name}"] = spec["hub"].get("gated", False)
    for name in os.environ.get("MODELS", MODEL).split():
        named = os.environ.get("QWEN25", model) if "Qwen2.5" in name else model
        shutil.copytree(named, folder / name, dirs_exist_ok=True)
        repositories[name] = False
    if training:
        build_training(training, folder)
        repositories |= {"datasets/ParaVT/ParaVT-Parquet": False, "datasets/ParaVT/ParaVT-Source": False, BASE: False}
    return repositories


def entry(root, path):
    data = path.read_bytes()
    git = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
    listed = {"type": "file", "oid": git, "size": len(data), "path": str(path.relative_to(root))}
    if len(data) > LARGE:
        listed["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
    return listed


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: pathlib.Path
    repositories: dict

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def reply(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.reply(status, code.encode(), [("x-error-code", code)])

    def do_GET(self):
        parts = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).strip("/").split("/")
        is_api = parts[0] == "api"
        parts = parts[is_api:]
        kind = parts[0] if parts[0] in ("datasets", "models") else None
        name = "/".join(parts[kind is not None :][:2])
        route = f"datasets/{name}" if kind == "datasets" else name
        rest = parts[kind is not None :][2:]
        if route not in self.repositories or len(rest) < 2:
            return self.refuse(404, "RepoNotFound")
        root = self.folder / route
        if is_api and rest[0] == "revision":
            commit = rest[1] if len(rest[1]) == 40 else COMMIT
            return self.reply(200, json.dumps({"sha": commit}).encode(), [("Content-Type", "application/json")])
        if is_api and rest[0] == "tree":
            listed = [entry(root, path) for path in sorted(root.rglob("*")) if path.is_file()]
            return self.reply(200, json.dumps(listed).encode(), [("Content-Type", "application/json")])
        if self.repositories[route] and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.refuse(403 if self.headers.get("Authorization") else 401, "GatedRepo")
        path = root.joinpath(*rest[2:])
        if rest[0] != "resolve" or not path.is_file():
            return self.refuse(404, "EntryNotFound")
        data, asked = path.read_bytes(), self.headers.get("Range")
        if not asked:
            return self.reply(200, data)
        first, last = asked.removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last or len(data) - 1), len(data) - 1)
        where = [("Content-Range", f"bytes {first}-{last}/{len(data)}")]
        return self.reply(206, data[first : last + 1], where)


def main():
    world, model, folder, *training = map(pathlib.Path, sys.argv[1:5])
    Hub.folder, Hub.repositories = folder, build(world, model, folder, *training)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
