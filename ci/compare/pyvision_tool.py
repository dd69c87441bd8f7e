"""PyVision-RL's own tool in this process's children, for `ci/compare/pyvision`: what a call costs, and what it lets
through.

    python ci/compare/pyvision_tool.py CHECKOUT VIDEO

The same calls as `suite/jail/examples/calls.rs`, medians in milliseconds. The class runs as it is; its package is entered
without what the rest of it imports.
"""

import os
import statistics
import sys
import time

from released import load, stub

checkout, video = sys.argv[1:]
for package in ("verl", "verl.workers", "verl.workers.agent"):
    sys.modules[package] = stub(package)
envs = os.path.join(checkout, "verl_agents/verl/workers/agent")
sys.modules["verl.workers.agent.tool_envs"] = load("verl.workers.agent.tool_envs", os.path.join(envs, "tool_envs.py"))
tool_file = load("release", os.path.join(envs, "envs/agents_x/safe_persis_python_exe_tool_wo_video_hint.py"))

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
