"""Compiles our CUDA kernels (backends/candle/src/fused) with NVRTC to machine code; no GPU is needed.

    ci/gpu/compile_kernels.py LIBNVRTC [ARCHITECTURE ...]      default: sm_80 sm_90

Prints registers and shared memory of each kernel. Registers that spill into memory are an error.
"""
import ctypes
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "backends/candle/src/fused"
# Sizes of heads: of Qwen3-VL's text and vision, of Qwen2.5-VL's.
MODULES = [("rows", []), ("sampling", []), *[("attention", [f"#define HEAD_DIM {dim}"]) for dim in (64, 72, 80, 128)]]


def compile_module(nvrtc, name, defines, architecture):
    """The compiler's log, with what each kernel uses."""
    text = "\n".join([(FOLDER / "ptx.cuh").read_text(), *defines, (FOLDER / f"{name}.cu").read_text()])
    program = ctypes.c_void_p()
    options = [option.encode() for option in
               (f"--gpu-architecture={architecture}", "--std=c++17", "--ptxas-options=-v")]
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None) != 0:
        raise SystemExit("ci/gpu/compile_kernels.py: NVRTC makes no program")
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed != 0:
        raise SystemExit(f"ci/gpu/compile_kernels.py: {name} for {architecture}: {log.value.decode()}")
    return log.value.decode()


def main(library, *architectures):
    # It asks for them by name, where the loader may not look.
    for builtins in Path(library).parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins))
    nvrtc = ctypes.CDLL(library)
    for architecture in architectures or ("sm_80", "sm_90"):
        for name, defines in MODULES:
            log = compile_module(nvrtc, name, defines, architecture)
            parts = re.split(r"Compiling entry function '(\w+)'", log)[1:]
            for kernel, used in zip(parts[::2], parts[1::2]):
                registers = re.search(r"Used (\d+) registers", used).group(1)
                shared = re.search(r"(\d+) bytes smem", used)
                spills = [int(bytes_) for bytes_ in re.findall(r"(\d+) bytes spill", used)]
                print(architecture, name, *defines, kernel, f"{registers} registers,",
                      f"{shared.group(1) if shared else 0} bytes of shared memory", flush=True)
                if not spills or any(spills):
                    raise SystemExit(f"ci/gpu/compile_kernels.py: {kernel} spills: {used}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
