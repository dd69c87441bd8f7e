"""PyVision-RL's own tool, in this process's children, for `ci/compare/pyvision`: what a call costs, and what it lets through.

    python ci/compare/pyvision_tool.py CHECKOUT VIDEO

The same calls as `suite/jail/examples/calls.rs`, medians in milliseconds. The class runs as it is; its package is entered
without what the rest of it imports.
"""

import importlib.util
import os
import statistics
import sys
import time
import types

checkout, video = sys.argv[1:]
root = os.path.join(checkout, "verl_agents/verl")


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(root, path))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


for package in ("verl", "verl.workers", "verl.workers.agent"):
    sys.modules[package] = types.ModuleType(package)
load("workers/agent/tool_envs.py", "verl.workers.agent.tool_envs")
tool_file = load("workers/agent/envs/agents_x/safe_persis_python_exe_tool_wo_video_hint.py", "pyvision_tool")

CODES = {
    "print": "print(1)",
    "frame": "print(video_clue_0[10].asnumpy().mean())",
    "figure": "plt.imshow(video_clue_0[10].asnumpy()); plt.show()",
}


def milliseconds(work):
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def start():
    tool = tool_file.MultiModalPythonTool_wo_Video_Hint()
    tool.reset(None, None, {"video": [video]}, 0.1)
    return tool


def run(tool, code):
    _, _, _, info = tool.execute(f"<code>\n```python\n{code}\n```\n</code>")
    assert info == {"status": "success"}, info


def cold():
    tools.append(start())
    run(tools[-1], CODES["print"])


tools = []
print(f"first call, cold                {statistics.median(milliseconds(cold) for _ in range(20)):8.2f}")
print(f"end of an episode               {statistics.median(milliseconds(tool.close) for tool in tools):8.2f}")
tool = start()
run(tool, CODES["print"])
for name, code in CODES.items():
    cost = statistics.median(milliseconds(lambda: run(tool, code)) for _ in range(200))
    print(f"warm call, {name:<21}{cost:8.2f}")
tool.close()

# The attacks of `suite/jail/tests` on a process of this program, without those that would harm the machine.
ATTACKS = {
    "another file": "open('/etc/passwd').read()",
    "the video's folder": f"import os; os.listdir({os.path.dirname(os.path.abspath(video))!r})",
    "the environment": "import os; os.environ['HOME']",
    "a socket": "import socket; socket.socket().bind(('127.0.0.1', 0))",
    "a process": "import subprocess; subprocess.run(['true'], check=True)",
    "a signal to the trainer": "import os; os.kill(os.getppid(), 0)",
    "code in the trainer": """
import gc, os
class Pickled:
    def __reduce__(self): return exec, ("import os; os.environ['REACHED'] = 'yes'",)
(worker,) = [thing for thing in gc.get_objects() if type(thing).__name__ == 'PersistentWorker']
worker.output_queue.put({'status': 'success', 'result': {'text': Pickled(), 'total_figures': 0}})
""",
}
for name, code in ATTACKS.items():
    tool = start()
    try:
        run(tool, code)
        through = name != "code in the trainer" or os.environ.get("REACHED") == "yes"
    except AssertionError:
        through = False
    print(f"{name:<24}{'goes through' if through else 'is stopped'}")
    tool.close()
