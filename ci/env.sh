# Sourced by the other scripts: where things lie that are not in the checkout, and how a script speaks and stops.
cache="${XDG_CACHE_HOME:-$HOME/.cache}/paravt-bench"
export PARAVT_VENV="${PARAVT_VENV:-$cache/venv}"
export PARAVT_PYTHON="${PARAVT_PYTHON:-$PARAVT_VENV/bin/python}"
# Compiled dependencies outlive the checkout; a CI that clones afresh only builds our own crates.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"
# Cargo takes what it compiled in another checkout for up to date if it is newer than the files of this one. Where the
# checkout changes, our own crates are compiled again and their dependencies stay.
checkout="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
if [ "$(cat "$CARGO_TARGET_DIR/checkout" 2>/dev/null)" != "$checkout" ]; then
  mkdir -p "$CARGO_TARGET_DIR"
  find "$CARGO_TARGET_DIR" -maxdepth 4 -path '*/.fingerprint/paravt-*' -prune -exec rm -r {} +
  echo "$checkout" >"$CARGO_TARGET_DIR/checkout"
fi
# rustup tells a new user to open another shell; its programs are found without one.
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
[ ! -x "$cargo_home/bin/cargo" ] || PATH="$cargo_home/bin:$PATH"

# say TEXT...: prints a paragraph in lines of at most 79 columns.
say() { fold -s -w 79 <<<"$*" | sed 's/ *$//'; }

# stop TEXT [COMMAND]: ends a script that cannot go on. The text says what is missing and what to do about it, the command
# is what does it.
stop() {
  {
    say "stopped: $1"
    [ -z "${2:-}" ] || fold -s -w 72 <<<"$2" | sed '$! s/ *$/ \\/; s/^/    /'
  } >&2
  exit 3
}

# Stops where there is no Rust or one that is too old. The workspace's manifest alone names the oldest.
require_rust() {
  local oldest version="" get="curl -sSf https://sh.rustup.rs | sh"
  oldest="$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)"
  if command -v cargo >/dev/null; then
    version="$(cargo --version | sed 's/^cargo \([0-9.]*\).*/\1/')" || version=""
    [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -n 1)" != "$oldest" ] || return 0
  fi
  command -v curl >/dev/null || get="$([ "$(id -u)" = 0 ] || echo 'sudo ')apt-get install curl && $get"
  ! command -v rustup >/dev/null || get="rustup update stable"
  [ -n "$version" ] || [ -z "${SUDO_USER:-}" ] ||
    stop "root has no Rust: repeat the command as $SUDO_USER, without sudo, which it asks for itself where it has to"
  stop "this takes Rust $oldest or newer, and ${version:-none} is installed: get it from rustup.rs, then repeat the command" "$get"
}

# Stops where ci/setup has made no Python environment.
require_python() { [ -x "$PARAVT_PYTHON" ] || stop "$PARAVT_PYTHON is missing: run ci/setup, then repeat the command"; }

# Sets BENCH to the command, built here, unless it names one.
build_bench() {
  [ -z "${BENCH:-}" ] || return 0
  cargo build --quiet --locked --bin paravt-bench
  export BENCH="$CARGO_TARGET_DIR/debug/paravt-bench"
}

# room FOLDER MEGABYTES REMEDY: stops where the disk of a folder, which need not exist yet, has less left.
room() {
  local folder="$1" free
  while [ ! -e "$folder" ]; do folder="$(dirname "$folder")"; done
  free="$(df --output=avail -B 1000000 "$folder" | tail -n 1)"
  ((free >= $2)) || stop "too little disk: $1 takes $(gigabytes "$2"), $(gigabytes "$free") is free; $3"
}

# gigabytes MEGABYTES: the number with a decimal and its unit.
gigabytes() { local tenths=$(($1 / 100 + ($1 % 100 >= 50))); printf '%d.%d GB' $((tenths / 10)) $((tenths % 10)); }

# quietly COMMAND...: runs a command in silence. Where it fails, its last lines are shown and the others are kept.
quietly() {
  local log status=0
  log="$(mktemp --suffix .log)"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status)); then
    tail -n 4 "$log" | cut -c 1-79 >&2
    echo "(all of it: $log)" >&2
  else
    rm -f "$log"
  fi
  return "$status"
}
