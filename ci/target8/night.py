"""The scenes of ci/target8/night: night.py BENCH WORK CHECKOUT [SCENE...]

Each scene is a function with a folder of its own, which ends with assertions and returns an exit code, the number
of samples that were lost, and what was said. Lost is a sample without a record or with two, and an answer that was asked
for again although it had a record.
"""

import collections
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import traceback

MODEL = "ParaVT/ParaVT-8B"
SPLITS = ["lvbench", "mlvu"]
RUNS = ["with-tool", "no-tool"]
# Of each split: `data make --videos 4 --questions 8`.
SAMPLES = 32
GPUS = 8
# Nothing listens on the port.
UNREACHABLE = "http://127.0.0.1:9/ParaVT"
# Characters of what was said in the table.
WIDTH = 110
# A variable in the environment of all that a scene starts.
MARK = "PARAVT_NIGHT"


def toml(value):
    """A value as TOML writes it in a line."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case _:
            return json.dumps(value)


def free_ports(count):
    """The first of some ports, one after the other, that nothing listens on."""
    for first in range(18000, 28000, count):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for number, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + number))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    sys.exit("no free ports")


def recipe(release):
    """paravt-8b with two splits, four frames, as many samples in flight as servers; of its needs the GPUs and the hub."""
    with open("reproduce/recipes/paravt-8b.toml", "rb") as file:
        found = tomllib.load(file)
    found["preflight"] = {"enabled": True, "hub": True, "gpus": found["preflight"]["gpus"]}
    found["fetch"]["gb"] = {"model": found["fetch"]["gb"]["model"]}
    names = [split if isinstance(split, str) else split["name"] for split in found["matrix"]["split"]]
    found["matrix"]["split"] = [name for name in names if name in SPLITS]
    found["evaluate"] |= {"nframes": 4, "concurrency": GPUS}
    found["serve"]["port"] = free_ports(GPUS)
    found["environments"] = {"url": str(release)}
    return found


def until(what, holds, seconds=60):
    """Waits until it holds; returns what did."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


class Running:
    """A command that was started."""

    def __init__(self, place, words):
        place.commands += 1
        self.place, self.output = place, place.folder / f"{place.commands}.log"
        with open(self.output, "w") as output:
            self.process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, cwd=place.folder,
                                            env=place.environment, start_new_session=True)

    def said(self):
        return self.output.read_text()

    def interrupt(self):
        """Ctrl-C, which a terminal sends to the group of the command."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self, code):
        """What it said, once it has ended with this code."""
        found = self.process.wait(120)
        assert found == code, f"exit code {code} expected, {found} found:\n{self.said()}"
        return self.said()


class Place:
    """Where a scene takes place: folder of results, data, texts, and a log of the questions that were answered."""

    def __init__(self, name):
        self.folder = WORK / "scenes" / name
        self.folder.mkdir(parents=True)
        self.out, self.hf, self.asked = self.folder / "out", self.folder / "hf", self.folder / "asked.jsonl"
        self.commands = 0
        self.notify = f'echo "$PARAVT_OUTCOME $PARAVT_STAGE" >>{self.folder}/told'
        self.environment = os.environ | {
            "HF_HOME": str(self.hf), "STUB_ASKED": str(self.asked), "STUB_SECONDS": "0.3", MARK: f"{self.folder}/",
            "PARAVT_BENCH_CACHE": str(WORK / "texts"),
        }
        self.recipe(CHECKOUT)

    def recipe(self, release):
        settings = recipe(release)
        self.port = settings["serve"]["port"]
        lines = [f"{key} = {toml(value)}\n" for key, value in settings.items()]
        (self.folder / "paravt-8b.toml").write_text("".join(lines))

    def with_data(self):
        """The data that an earlier scene fetched, as they were then."""
        shutil.copytree(WORK / "fetched", self.hf, symlinks=True)
        return self

    def bench(self, *words):
        return Running(self, [BENCH, *map(str, words)])

    def reproduce(self, *words):
        return self.bench("reproduce", self.folder / "paravt-8b.toml", "--own-engine", "--out", self.out, *words)

    def status(self, code):
        """What `status` says, which ends with this code."""
        return self.bench("status", self.out).ended(code)

    def told(self):
        """Outcomes and stages that `--notify` was told."""
        lines = (self.folder / "told").read_text().splitlines() if (self.folder / "told").exists() else []
        return [tuple(line.split(" ", 1)) for line in lines]

    def runs(self):
        """Folders of the runs, by stage and split."""
        found = self.out.glob("stages/*/*/manifest.json")
        return {path.parent.parent.name.rpartition("-")[0]: path.parent for path in found}

    def records(self, stage):
        """Ids of the samples that a stage has records of."""
        run = self.runs().get(stage)
        lines = (run / "journal.jsonl").read_text().splitlines(keepends=True) if run else []
        return [json.loads(line)["sample"]["uid"] for line in lines if line.endswith("\n")]

    def stages(self):
        return [f"{run}-{split}" for split in SPLITS for run in RUNS]

    def answered(self):
        """How often each question was answered."""
        lines = self.asked.read_text().splitlines() if self.asked.exists() else []
        return collections.Counter(json.loads(line)["messages"] for line in lines)

    def lost(self, stages=None):
        """Samples of these stages, or all, without a record or with two."""
        stages = self.stages() if stages is None else stages
        lost = [abs(SAMPLES - len(set(ids))) + len(ids) - len(set(ids)) for ids in map(self.records, stages)]
        return sum(lost)

    def twice(self):
        """How often a question was answered again."""
        return sum(count - 1 for count in self.answered().values())

    def unrecorded(self):
        """Answers without a record, after a stop."""
        return sum(self.answered().values()) - sum(len(self.records(stage)) for stage in self.runs())


def processes(folder):
    """Processes that are there of the scenes below a folder."""
    found = []
    for environ in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"\0{MARK}={folder}/".encode() in b"\0" + environ.read_bytes():
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


def line(text, *patterns):
    """Of the first line of a text with all of these patterns in it, what the last one matches."""
    for found in text.splitlines():
        if all(re.search(pattern, found) for pattern in patterns):
            return " ".join(re.search(patterns[-1], found)[0].split())
    raise AssertionError(f"no line with {patterns} in:\n{text}")


def missing_import():
    """The release cannot be reached, and its texts were never imported."""
    place = Place("import")
    place.environment["PARAVT_BENCH_CACHE"] = str(place.folder / "texts")
    place.recipe(UNREACHABLE)
    said = place.reproduce().ended(3)
    assert not place.hf.exists() or not any(place.hf.rglob("*")), "something was downloaded before"
    assert place.runs() == {} and place.asked.exists() is False
    place.bench("protocol", "import", "--from", CHECKOUT).ended(0)
    place.reproduce("--until", "with-tool-lvbench").ended(0)
    return 3, place.lost(["with-tool-lvbench"]), line(said, "^hint: .*protocol import --from.*")


def dead_server():
    """Server 3 of 8 is killed while a split is evaluated."""
    place = Place("server").with_data()
    place.environment["STUB_SECONDS"] = "1"
    log = lambda number: (place.out / f"servers/server-{number}.log").read_text()
    starts = lambda number: log(number).count(f"CUDA_VISIBLE_DEVICES={number},")
    running = place.reproduce()
    until("a record", lambda: place.records("with-tool-lvbench"))
    os.kill(json.loads((place.out / "servers/server-3.pid").read_text())["pid"], signal.SIGKILL)
    until("the death is said", lambda: f"the server on port {place.port + 3} ended" in running.said(), 5)
    assert len(place.records("with-tool-lvbench")) < SAMPLES, "said after the split"
    said = running.ended(0)
    assert len({starts(number) for number in range(GPUS) if number != 3}) == 1, "another server was started again"
    assert starts(3) == starts(0) + 1, "it was not started again"
    return 0, place.lost(), line(said, f"the server on port {place.port + 3} .* started again")


def interrupted():
    """Ctrl-C in the middle of a split, and when its last samples are in flight."""
    place = Place("interrupt").with_data()
    place.environment["STUB_SECONDS"] = "1"
    for enough, wanted in ((1, range(1, SAMPLES)), (SAMPLES - GPUS + 1, [SAMPLES])):
        running = place.reproduce()
        until("records", lambda: len(place.records("with-tool-lvbench")) >= enough)
        running.interrupt()
        said = running.ended(130)
        assert len(place.records("with-tool-lvbench")) in wanted, said
        assert list(place.runs()) == ["with-tool-lvbench"], "another evaluation was begun"
        assert processes(place.folder) == [], "processes outlived the command"
    place.environment["STUB_SECONDS"] = "0.1"
    place.reproduce().ended(0)
    return 130, place.lost() + place.twice(), line(said, "stopped; .*")


def full_disk():
    """The disk of the results fills up while a split is evaluated."""
    place = Place("disk").with_data()
    place.out.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o"]
    subprocess.run([*mount, "size=1m", "none", place.out], check=True)
    running = place.reproduce("--notify", place.notify)
    until("records", lambda: len(place.records("with-tool-lvbench")) >= GPUS)
    try:
        with open(place.out / "of-somebody-else", "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    except OSError:
        pass
    said = running.ended(4)
    assert list(place.runs()) == ["with-tool-lvbench"], "another evaluation was tried"
    assert place.told() == [("incomplete", "with-tool-lvbench"), ("incomplete", "")], place.told()
    safe, unrecorded = place.records("with-tool-lvbench"), place.unrecorded()
    subprocess.run([*mount, "remount,size=16m", "none", place.out], check=True)
    place.reproduce().ended(0)
    assert place.records("with-tool-lvbench")[: len(safe)] == safe
    return 4, place.lost() + abs(place.twice() - unrecorded), line(said, "the disk is full.*")


def deleted_media():
    """The files of a split are deleted after everything is done."""
    place = Place("media").with_data()
    place.reproduce().ended(0)
    videos = {path.parent for path in place.hf.rglob("nanoML_*.mp4")}
    for folder in [*videos, *place.hf.glob("hub/datasets--*MLVU*")]:
        shutil.rmtree(folder)
    said = place.reproduce().ended(0)
    assert any(place.hf.rglob("nanoML_*.mp4")) and said.count("(done before)") == len(place.stages()), said
    return 0, place.lost() + place.twice(), line(said, "fetch: .*", "done before, but .* fetching what is missing")


def redone():
    """One stage as far as another, and one evaluation, are done again."""
    place = Place("redo").with_data()
    place.reproduce().ended(0)
    journals = lambda: {name: (run / "journal.jsonl").read_bytes() for name, run in place.runs().items()}
    hashes = lambda: {name: hashlib.sha256(journal).digest() for name, journal in journals().items()}
    discarded = lambda: sorted(path.name.split("-")[0] for path in place.out.glob("discarded/*"))
    before = hashes()
    said = place.reproduce("--from", "fetch", "--until", "with-tool-lvbench").ended(0)
    said += place.reproduce("--redo", "no-tool-mlvu").ended(0)
    after = hashes()
    assert {name for name in before if before[name] != after[name]} == {"with-tool-lvbench", "no-tool-mlvu"}
    assert len(place.answered()) == SAMPLES * len(place.stages()) and place.twice() == 2 * SAMPLES
    assert discarded() == ["fetch", "no", "with"], discarded()
    return 0, place.lost(), line(said, "no-tool-mlvu", "asked to do it again.*")


def other_model():
    """The model moves to another commit, then the engine to another version, after a split is done."""
    place = Place("model").with_data()
    engine = place.folder / "engine"
    shutil.copytree(WORK / "engine", engine)
    place.environment["PATH"] = f"{engine}/bin:{os.environ['PATH']}"
    one = ["--until", "with-tool-lvbench"]
    place.reproduce(*one).ended(0)
    packages, = engine.glob("lib/python*/site-packages")
    model = place.hf / "hub/models--ParaVT--ParaVT-8B"
    old, new = (model / "refs/main").read_text(), "f" * 40
    shutil.copytree(model / "snapshots" / old, model / "snapshots" / new, symlinks=True)
    (model / "refs/main").write_text(new)
    said = place.reproduce(*one).ended(3)
    moved = line(said, f"weights_commit was {old}, now {new}", "`--redo.*")
    (model / "refs/main").write_text(old)
    (packages / "vllm-0.17.1.dist-info").rename(packages / "vllm-0.18.0.dist-info")
    said = place.reproduce(*one).ended(3)
    line(said, "0.17.1", "0.18.0")
    assert place.twice() == 0, "something was asked by the other model or engine"
    redo = re.search(r"--redo ([\w,-]+)", said)[1]
    place.reproduce(*one, "--redo", redo).ended(0)
    assert len(list(place.out.glob("discarded/with-tool-lvbench-*"))) == 1
    return 3, place.lost(["with-tool-lvbench"]), moved


def what_is_it_doing():
    """`status` while it runs and after SIGKILL; the command that it names goes on to the end."""
    place = Place("status").with_data()
    place.environment["STUB_SECONDS"] = "0.5"
    running = place.reproduce("--notify", place.notify)
    until("a record", lambda: place.records("with-tool-lvbench"))
    line(place.status(0), f"^running .*with-tool-lvbench.*/{SAMPLES}")
    running.process.kill()
    running.process.wait()
    until("the servers end with it", lambda: not processes(place.folder), 15)
    status, unrecorded = place.status(4), place.unrecorded()
    said = line(status, f"^killed .*with-tool-lvbench.*/{SAMPLES}")
    assert place.told() == [], "there was nobody who could have told it"
    # What may be a secret is not kept.
    line(status, "with --notify as before")
    words = shlex.split(status.partition("\nnext: ")[2].splitlines()[0])
    Running(place, [BENCH, *words[1:], "--notify", place.notify]).ended(0)
    assert place.told() == [("complete", "")], place.told()
    line(place.status(0), "^next: open", "index.html")
    return 0, place.lost() + abs(place.twice() - unrecorded), said


SCENES = [missing_import, dead_server, interrupted, full_disk, deleted_media, redone, other_model, what_is_it_doing]


def play(number, scene):
    """Plays a scene; returns its row of the table, and whether it failed."""
    title = scene.__doc__.splitlines()[0]
    print(f"\n== {number}. {title} ==", flush=True)
    began = time.monotonic()
    try:
        code, lost, said = scene()
        assert lost == 0, f"{lost} samples lost or asked twice"
        row = (str(code), "nothing", said)
    except Exception:
        traceback.print_exc()
        for pid in processes(WORK):
            os.kill(pid, signal.SIGKILL)
        row = ("FAILED", "?", "see above")
    seconds = time.monotonic() - began
    said = re.sub(rf"{WORK}/\S*?([^/\s]+)(?=[:;,\s]|$)", r"…/\1", row[2])[:WIDTH]
    print(f"{row[0]}: {said}", flush=True)
    name = scene.__name__.replace("_", " ")
    return f"{number} {name:<17} {row[0]:>6}  {row[1]:<7} {seconds:>3.0f} s  {said}", row[0] == "FAILED"


def main():
    place = Place("fetch")
    place.bench("protocol", "import", "--from", CHECKOUT).ended(0)
    place.reproduce("--until", "fetch").ended(0)
    # As the scenes find it, unless they begin without.
    place.hf.rename(WORK / "fetched")
    chosen = {int(number) for number in sys.argv[4:]} or range(1, len(SCENES) + 1)
    rows = [play(number, scene) for number, scene in enumerate(SCENES, 1) if number in chosen]
    print(f"\n  {'scene':<17} {'exit':>6}  {'lost':<7} {'time':>5}  said")
    for row, _ in rows:
        print(row)
    sys.exit(any(failed for _, failed in rows))


BENCH, WORK, CHECKOUT = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
main()
