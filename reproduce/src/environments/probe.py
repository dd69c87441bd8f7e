"""Writes what a Python environment holds, as JSON, to the file argv[2]; argv[1] names modules to import and to find."""

import ctypes
import importlib
import importlib.metadata
import importlib.util
import json
import platform
import sys

wanted = json.loads(sys.argv[1])
answer = {
    "python": platform.python_version(),
    "packages": [[found.metadata["Name"], found.version] for found in importlib.metadata.distributions()],
    "imports": {},
    "located": {},
    "driver": True,
}
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    answer["driver"] = False
for name in wanted["imports"]:
    print("importing", name, flush=True)
    try:
        importlib.import_module(name)
        answer["imports"][name] = None
    except BaseException as error:
        answer["imports"][name] = f"{type(error).__name__}: {error}"
for name in wanted["located"]:
    try:
        found = importlib.util.find_spec(name)
        folders = list(found.submodule_search_locations or []) if found else []
        answer["located"][name] = found and (found.origin or (folders or [None])[0])
    except BaseException as error:
        answer["located"][name] = None
        print(name, type(error).__name__, error, flush=True)
torch = sys.modules.get("torch")
if torch is not None and hasattr(torch, "version"):
    answer["torch"] = {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "gpus": torch.cuda.device_count(),
    }
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(answer, file)
