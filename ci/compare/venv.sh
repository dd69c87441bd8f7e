# Sourced, after ci/env.sh: Python environments of foreign code, apart from that of ci/setup. The stamp in each makes a
# second call free and a changed list take effect.

# install_list VENV LIST: an environment with the packages of a list.
install_list() {
  cmp -s "$2" "$1/.pins" && return
  [ -x "$1/bin/python" ] || python3 -m venv "$1"
  "$1/bin/pip" install -q --disable-pip-version-check -r "$2"
  cp "$2" "$1/.pins"
}

# extend_peers VENV INSTALL: an environment that sees torch and transformers of ci/setup's. The function INSTALL, which the
# calling script defines, adds packages.
extend_peers() {
  local script="ci/compare/${0##*/}" where='import site; print(site.getsitepackages()[0])'
  require_python
  cmp -s "$script" "$1/.stamp" && return
  echo "installing the packages of $script: $1"
  "$PARAVT_PYTHON" -m venv --clear "$1"
  "$PARAVT_PYTHON" -c "$where" >"$("$1/bin/python" -c "$where")/peers.pth"
  "$2"
  cp "$script" "$1/.stamp"
}
