# Sourced by the scripts that build with the feature `cuda`: finds a CUDA toolkit, or makes one of PyPI's packages in
# the cache, and sets what build scripts look at.
#
# candle links libcuda, which comes with the driver and not with those packages. Where it is missing, a library with
# its name and its functions is linked in its place: enough to build and to start; a GPU's driver brings the real one.
cuda_version=13.0
if ! command -v nvcc >/dev/null; then
  toolkit="$cache/cuda-$cuda_version"
  if [ ! -e "$toolkit/whole" ]; then
    python3 -m venv "$toolkit/venv"
    "$toolkit/venv/bin/pip" install -q "nvidia-cuda-nvcc==$cuda_version.*" "nvidia-cuda-crt==$cuda_version.*" \
      "nvidia-nvvm==$cuda_version.*" "nvidia-cuda-runtime==$cuda_version.*" "nvidia-cuda-nvrtc==$cuda_version.*" \
      "nvidia-cuda-cccl==$cuda_version.*" "nvidia-cublas==13.*" nvidia-curand
    # They make one folder together, laid out as a toolkit but for names that the linker asks for.
    ln -sfn "$toolkit"/venv/lib/python*/site-packages/nvidia/cu13 "$toolkit/root"
    ln -sfn lib "$toolkit/root/lib64"
    for library in "$toolkit"/root/lib/*.so.*; do
      ln -sfn "$library" "${library%%.so.*}.so"
    done
    touch "$toolkit/whole"
  fi
  toolkit="$toolkit/root"
  export CUDA_HOME="$toolkit" CUDA_PATH="$toolkit" CUDA_ROOT="$toolkit" PATH="$toolkit/bin:$PATH"
  export LD_LIBRARY_PATH="$toolkit/lib64:${LD_LIBRARY_PATH:-}" LIBRARY_PATH="$toolkit/lib64:${LIBRARY_PATH:-}"
fi
export CUDA_COMPUTE_CAP="${CUDA_COMPUTE_CAP:-90}"

# Every function answers CUDA_ERROR_STUB_LIBRARY.
stubs="$cache/cuda-stub"
export cuda_stub="$stubs/libcuda.so"
if [ ! -e "$stubs/whole" ]; then
  mkdir -p "$stubs"
  manifest="$(cargo metadata --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu \
    --features paravt-bench/cuda | python3 -c 'import json, sys
print(*(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "cudarc"))')"
  grep -oE '\bfn cu[A-Z][A-Za-z0-9_]*\(' "$(dirname "$manifest")/src/driver/sys/mod.rs" | sort -u |
    sed -E 's/fn (.*)\(/int \1(void) { return 34; }/' > "$stubs/cuda.c"
  cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$cuda_stub" "$stubs/cuda.c"
  touch "$stubs/whole"
fi
if ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
  export LIBRARY_PATH="$stubs:${LIBRARY_PATH:-}"
fi
