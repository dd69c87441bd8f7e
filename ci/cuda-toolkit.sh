# Sourced by the scripts that build with the feature `cuda`: finds a CUDA toolkit, or makes one of PyPI's packages in
# the cache, and sets what build scripts look at.
#
# candle links libcuda, which comes with the driver and not with those packages. Where it is missing, a library with
# its name and its functions, all empty, is linked in its place: enough to build; a GPU's driver brings the real one.
cuda_version=12.8
if ! command -v nvcc >/dev/null; then
  toolkit="$cache/cuda-$cuda_version"
  if [ ! -x "$toolkit/bin/nvcc" ]; then
    python3 -m venv "$toolkit/venv"
    "$toolkit/venv/bin/pip" install -q "nvidia-cuda-nvcc-cu12==$cuda_version.*" \
      "nvidia-cuda-runtime-cu12==$cuda_version.*" "nvidia-cublas-cu12==$cuda_version.*" \
      "nvidia-cuda-nvrtc-cu12==$cuda_version.*" "nvidia-cuda-cccl-cu12==$cuda_version.*" nvidia-curand-cu12
    mkdir -p "$toolkit"/{include,lib64}
    for part in "$toolkit"/venv/lib/python*/site-packages/nvidia/*/; do
      part="${part%/}"
      [ -d "$part/include" ] && cp -rsf "$part"/include/. "$toolkit/include/"
      [ -d "$part/lib" ] && cp -rsf "$part"/lib/. "$toolkit/lib64/"
      [ -d "$part/nvvm" ] && ln -sfn "$part/nvvm" "$toolkit/nvvm"
    done
    for library in "$toolkit"/lib64/*.so.*; do
      ln -sfn "$library" "${library%%.so.*}.so"
    done
    # Last: the compiler's presence says that the toolkit is whole. nvcc finds its headers beside itself.
    mkdir -p "$toolkit/bin"
    for part in "$toolkit"/venv/lib/python*/site-packages/nvidia/*/bin; do
      cp -rsf "$part"/. "$toolkit/bin/"
    done
  fi
  export CUDA_HOME="$toolkit" CUDA_PATH="$toolkit" CUDA_ROOT="$toolkit" PATH="$toolkit/bin:$PATH"
  export LD_LIBRARY_PATH="$toolkit/lib64:${LD_LIBRARY_PATH:-}" LIBRARY_PATH="$toolkit/lib64:${LIBRARY_PATH:-}"
fi
export CUDA_COMPUTE_CAP="${CUDA_COMPUTE_CAP:-90}"

if ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
  stubs="$cache/cuda-stub"
  mkdir -p "$stubs"
  manifest="$(cargo metadata --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu \
    --features paravt-bench/cuda | python3 -c 'import json, sys
print(*(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "cudarc"))')"
  grep -oE '\bfn cu[A-Z][A-Za-z0-9_]*\(' "$(dirname "$manifest")/src/driver/sys/mod.rs" | sort -u |
    sed -E 's/fn (.*)\(/void \1(void) {}/' > "$stubs/cuda.c"
  cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$stubs/libcuda.so" "$stubs/cuda.c"
  export LIBRARY_PATH="$stubs:${LIBRARY_PATH:-}"
fi
