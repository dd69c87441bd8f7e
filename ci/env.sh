# Sourced by the other scripts: where things lie that are not in the checkout.
cache="${XDG_CACHE_HOME:-$HOME/.cache}/paravt-bench"
export PARAVT_VENV="${PARAVT_VENV:-$cache/venv}"
export PARAVT_PYTHON="${PARAVT_PYTHON:-$PARAVT_VENV/bin/python}"
# Compiled dependencies outlive the checkout; a CI that clones afresh only builds our own crates.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"
