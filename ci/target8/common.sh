# Sourced by evaluate, train and night in the root of the checkout: where things are, the binary, a hub that ends with the
# script, as does the folder `temporary`.
# BENCH names the binary [default: built here].
. ci/env.sh
release=cf55249e391004b5aafea3f19cf5580d3517cb43
trap 'kill "${hub:-}" 2>/dev/null || true; wait 2>/dev/null || true; ${temporary:+rm -rf "$temporary"}' EXIT
step() { printf '\n== %s (%s s) ==\n' "$*" "$SECONDS"; }

build_bench

# The release at the commit, in a folder where it is not yet.
clone_release() {
  [ -d "$1/paravt" ] && return
  git clone --quiet https://github.com/EvolvingLMMs-Lab/ParaVT "$1"
  git -C "$1" checkout --quiet "$release"
}

# Serves what ci/target8/hub.py makes of its arguments.
start_hub() {
  "$PARAVT_PYTHON" ci/target8/hub.py "$@" >"$work/address" &
  hub=$!
  for _ in $(seq 100); do [ -s "$work/address" ] && break; sleep 0.2; done
  HF_ENDPOINT=$(cat "$work/address")
  export HF_ENDPOINT
}

# A home of its own for what follows, without the settings of the user.
at_home() {
  mkdir -p "$1"
  export HOME="$1" XDG_DATA_HOME="$1/data" XDG_CONFIG_HOME="$1/config" XDG_CACHE_HOME="$1/cache"
  unset HF_TOKEN HF_TOKEN_PATH HF_HUB_OFFLINE OPENAI_BASE_URL PARAVT_BENCH_CACHE
}
