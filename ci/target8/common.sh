# Sourced by evaluate, train, witness and night in the root of the checkout: where things are, the binary, a hub that ends
# with the script, as does the folder `temporary`.
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

# make_environment FOLDER: the versions of the release over the environment of ci/setup, whose torch it uses.
make_environment() {
  cmp -s ci/target8/requirements.txt "$1/.installed" && return
  step an environment
  "$PARAVT_VENV/bin/python" -m venv --clear --without-pip "$1"
  "$PARAVT_VENV/bin/python" -c 'import site; print(site.getsitepackages()[0])' \
    > "$("$1/bin/python" -c 'import site; print(site.getsitepackages()[0])')/base.pth"
  "$PARAVT_VENV/bin/pip" --python "$1/bin/python" install -q --disable-pip-version-check --no-deps \
    -r ci/target8/requirements.txt
  printf '#!%s\nfrom torch.distributed.run import main\nmain()\n' "$1/bin/python" > "$1/bin/torchrun"
  chmod +x "$1/bin/torchrun"
  cp ci/target8/requirements.txt "$1/.installed"
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
