"""Lets the released trainers run on a CPU: packages that need a GPU are empty, calls that need one do their CPU work.

Nothing of what is computed changes: the loss, the optimiser, the sharding and the files are those of the release.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types

ABSENT = {"flash_attn", "cv2", "deepspeed", "librosa", "peft", "wandb", "liger_kernel", "ray", "numba"}


class Anything(type):
    """A class whose attributes are classes like it."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return make(name)


def make(name):
    def call(self, *args, **kwargs):
        # As a decorator it returns what it decorates.
        return args[0] if args and callable(args[0]) else self

    body = {"__init__": lambda self, *args, **kwargs: None, "__init_subclass__": classmethod(lambda cls, **kwargs: None),
            "__call__": call, "__class_getitem__": classmethod(lambda cls, item: cls)}
    return Anything(name, (), body)


class Empty(types.ModuleType):
    """A package that is not installed: every name in it is a class that does nothing."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return make(name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Empty(spec.name)

    def exec_module(self, module):
        pass


def on_cpu():
    import torch
    import torch.distributed as dist
    import torch.distributed.device_mesh as device_mesh

    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.get_device_name = lambda *args, **kwargs: "CPU"
    all_reduce, barrier, init_mesh, autocast = dist.all_reduce, dist.barrier, device_mesh.init_device_mesh, torch.autocast

    def reduce(tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
        # gloo has no mean.
        if op != dist.ReduceOp.AVG:
            return all_reduce(tensor, op=op, group=group, async_op=async_op)
        done = all_reduce(tensor, op=dist.ReduceOp.SUM, group=group, async_op=async_op)
        tensor /= dist.get_world_size(group)
        return done

    class CpuAutocast(autocast):
        def __init__(self, device_type=None, **kwargs):
            super().__init__(device_type="cpu" if device_type == "cuda" else device_type, **kwargs)

    dist.all_reduce = reduce
    dist.barrier = lambda group=None, async_op=False, device_ids=None: barrier(group=group, async_op=async_op)
    device_mesh.init_device_mesh = lambda device_type, *args, **kwargs: init_mesh("cpu", *args, **kwargs)
    torch.autocast = CpuAutocast


class Edited(importlib.machinery.SourceFileLoader):
    """A module of the release with one expression replaced; the file stays as it is."""

    EDITS = {
        # AReaL takes the device of its platform everywhere but here.
        "areal.engine.fsdp_engine": (
            'self.device = torch.device(int(os.environ["LOCAL_RANK"]))',
            "self.device = torch.device(current_platform.device_type)"),
        # As words "2.13" is below "2.6".
        "areal.utils.distributed": ('str(torch.__version__) >= "2.6"', "True"),
        # What the actor is given and makes of it, where $PARAVT_DUMP names a folder.
        "paravt.rl.actor": (
            "class HierarchicalPPOActor(FSDPPPOActor):",
            "import rl_dump\n\n\n@rl_dump.dumped\nclass HierarchicalPPOActor(FSDPPPOActor):"),
        # What becomes of each group, where $PARAVT_GROUPS names a file.
        "areal.core.workflow_executor": (
            "class GroupedRolloutWorkflow(RolloutWorkflow):",
            "import rl_groups\n\n\n@rl_groups.noted\nclass GroupedRolloutWorkflow(RolloutWorkflow):"),
        "paravt.rl.subagents.manager": (
            "        if status == ToolCallStatus.SUCCESS:",
            "        import rl_groups\n\n        rl_groups.called(status == ToolCallStatus.SUCCESS)\n"
            "        if status == ToolCallStatus.SUCCESS:"),
    }

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in cls.EDITS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = cls(name, spec.origin)
        return spec

    def get_code(self, name):
        source, (old, new) = self.get_source(name), self.EDITS[name]
        assert source.count(old) == 1, f"{self.path} is not the one that this was written for: {old}"
        return compile(source.replace(old, new), self.path, "exec")


def platform_on_cpu():
    """AReaL's platform of the CPU passes on to torch.cpu, which has no memory of its own to empty or to measure."""
    import torch

    for name in ("empty_cache", "manual_seed", "manual_seed_all", "reset_peak_memory_stats"):
        setattr(torch.cpu, name, lambda *_, **__: None)
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        setattr(torch.cpu, name, lambda *_, **__: 0)
    torch.cpu.mem_get_info = lambda *_, **__: (0, 0)


def as_on_gpus():
    """AReaL's launcher of servers takes this machine for one with GPUs: it asks which are visible."""
    import torch

    torch.cuda.is_available = lambda: True
    torch.cuda.get_device_name = lambda *args, **kwargs: "NVIDIA stand-in"


sys.meta_path.append(Finder())
is_rank = os.environ.get("RANK") is not None
is_rl = is_rank and any(word.endswith("rl_entry.py") for word in sys.orig_argv)
if os.environ.get("PARAVT_ON_CPU") and "areal.launcher.sglang_server" in sys.orig_argv:
    as_on_gpus()
elif os.environ.get("PARAVT_ON_CPU") and (is_rl or "sglang.launch_server" in sys.orig_argv):
    sys.meta_path.insert(0, Edited)
    platform_on_cpu()
elif os.environ.get("PARAVT_ON_CPU") and (is_rank or "lmms_engine.merger" in sys.orig_argv):
    on_cpu()
