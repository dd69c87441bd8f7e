# Sourced, after ci/env.sh: a server of models on a free port, transformers' or vLLM in an environment of its own. What
# sources it sets `work`, a folder for the server's log, and kills $server at its end.

port=$("$PARAVT_PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

# serve_transformers MODEL FLAG…
serve_transformers() {
  HF_HUB_OFFLINE=1 "$(dirname "$PARAVT_PYTHON")/transformers" serve "$1" --device cpu --host 127.0.0.1 --port "$port" \
    "${@:2}" >"$work/server.log" 2>&1 &
  server=$!
}

# What vLLM asks for of itself: the version of a distribution `vllm`, which these wheels are not.
name_vllm() {
  local site=$1 version=$2 info="$1/vllm-$2+cpu.dist-info"
  mkdir -p "$info"
  : >"$info/RECORD"
  sed "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" \
    "$site/vllm_cpu-$version.dist-info/METADATA" >"$info/METADATA"
}

# An environment of vLLM with all that a list of pins names. The stamp makes a second call free and a changed list take
# effect.
install_vllm() {
  local version=$1 venv=$2 pins=$3 site
  cmp -s "$pins" "$venv/.pins" && return
  echo "installing vLLM $version for the CPU: $venv"
  if [ "$version" = 0.17.1 ]; then
    [ -x "$cache/uv/bin/uv" ] || { python3 -m venv "$cache/uv" && "$cache/uv/bin/pip" install -q uv; }
    [ -x "$venv/bin/python" ] || "$cache/uv/bin/uv" venv -q --python "${PYTHON312:-3.12}" "$venv"
    "$cache/uv/bin/uv" pip install -q --no-deps --python "$venv/bin/python" -r "$pins"
    site=$(echo "$venv"/lib/python3.*/site-packages)
  else
    [ -x "$venv/bin/python" ] || "$PARAVT_PYTHON" -m venv "$venv"
    site=$(echo "$venv"/lib/python3.*/site-packages)
    "$PARAVT_PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' >"$site/setup.pth"
    "$venv/bin/pip" install -q --disable-pip-version-check --no-deps -r "$pins"
  fi
  name_vllm "$site" "$version"
  cp "$pins" "$venv/.pins"
}

# serve_vllm VENV MODEL FLAG…
serve_vllm() {
  local venv=$1 served=$2
  shift 2
  VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=2 VLLM_NO_USAGE_STATS=1 \
    "$venv/bin/vllm" serve "$served" --host 127.0.0.1 --port "$port" --served-model-name served \
    --dtype float32 --enforce-eager --max-model-len 4096 --max-num-batched-tokens 8192 \
    --limit-mm-per-prompt '{"video": 1, "image": 1024}' "$@" >"$work/server.log" 2>&1 &
  server=$!
}

# serve_scripts FLAG…: vLLM 0.32 with a tiny model, which says the script that a request has; its address is $scripts.
serve_scripts() {
  work=$(mktemp -d)
  trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
  export HF_HUB_OFFLINE=1
  install_vllm 0.32.0 "$cache/venv-vllm-0.32" ci/servers/vllm-0.32.txt
  "$PARAVT_PYTHON" ci/tiny_qwen25vl.py "$work/model" >"$work/model.log" 2>&1
  # Agents ask for 49,152 tokens, and show up to nine videos.
  VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 PYTHONPATH=ci/servers serve_vllm "$cache/venv-vllm-0.32" "$work/model" \
    --max-model-len 98304 --max-num-batched-tokens 49152 --limit-mm-per-prompt '{"video": 9, "image": 1024}' \
    --logits-processors scripted_logits:Script "$@"
  await_server
  scripts="http://127.0.0.1:$port/v1"
}

await_server() {
  for _ in $(seq 600); do
    "$PARAVT_PYTHON" -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/health')" 2>/dev/null && return
    kill -0 "$server" 2>/dev/null || break
    sleep 1
  done
  tail -n 60 "$work/server.log" >&2
  exit 3
}
