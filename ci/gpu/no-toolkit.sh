# Sourced where types are checked with the feature `cuda` and no toolkit is wanted: in the place of nvcc stands a script
# that writes empty kernels.
export CUDA_ROOT="$CARGO_TARGET_DIR/no-toolkit" CUDA_COMPUTE_CAP=90
mkdir -p "$CUDA_ROOT"/{bin,include,lib64}
cat > "$CUDA_ROOT/bin/nvcc" <<'NVCC'
#!/usr/bin/env bash
# Stands in for nvcc: says a version, and writes empty files where kernels are asked for.
case " $* " in
  *" --version "*) printf 'stand-in for\nnvcc\n\nCuda compilation tools, release 12.8, V12.8.0\n' ;;
esac
while [ $# -gt 0 ]; do
  case "$1" in
    -o) : > "$2"; shift ;;
    --output-directory) directory="$2"; shift ;;
    *.cu) source="$1" ;;
  esac
  shift
done
if [ -n "${directory:-}" ]; then
  name="$(basename "$source")"
  : > "$directory/${name%.cu}.ptx"
fi
NVCC
chmod +x "$CUDA_ROOT/bin/nvcc"
# The compiler for nvcc's host code is none: kernels are compiled again, not taken for these, where it is another.
export CUDA_HOME="$CUDA_ROOT" CUDA_PATH="$CUDA_ROOT" NVCC="$CUDA_ROOT/bin/nvcc" NVCC_CCBIN=no-compiler
export PATH="$CUDA_ROOT/bin:$PATH"
