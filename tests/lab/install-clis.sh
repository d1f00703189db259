#!/usr/bin/env bash
# Installs the pinned provider CLIs that the lab runs, from the npm registry, once.
#
#   install-clis.sh [--quota-axi]
#
# LAB_CLIS moves the folder (default ~/.cache/agent-fleet-lab-clis). When the pinned versions are
# there it returns at once, without npm and without network. Safe to run several times at once.
# It fails, with one sentence that says why, when it cannot deliver working binaries.
set -euo pipefail
codex=0.171.0 claude=2.1.332 quota_axi=0.1.40 node=22.23.3

fail() { echo "install-clis.sh: $*" >&2; exit 1; }

want=("@openai/codex@$codex" "@anthropic-ai/claude-code@$claude")
case "${1:-}" in
  '') ;;
  --quota-axi) want+=("quota-axi@$quota_axi" "node@$node") ;;
  *) fail "unknown argument $1; usage: install-clis.sh [--quota-axi]" ;;
esac
dir=${LAB_CLIS:-$HOME/.cache/agent-fleet-lab-clis}
stamp=$dir/installed
claude_bin=$dir/node_modules/@anthropic-ai/claude-code/bin/claude.exe
codex_bin=$dir/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex

whole() { # the stamp is written last, so it says that these versions were installed and answered
  [ -x "$claude_bin" ] && [ -x "$codex_bin" ] && [ -f "$stamp" ] || return 1
  local package
  for package in "${want[@]}"; do grep -qxF "$package" "$stamp" || return 1; done
}
report() { printf '%s\n' "$claude_bin $claude" "$codex_bin $codex"; }
answers() { # BINARY VERSION
  local said
  said=$("$1" --version 2>&1 < /dev/null) || fail "$1 was installed but does not run: $said"
  [[ $said == *"$2"* ]] || fail "$1 says '$said' instead of version $2"
}

if whole; then report; exit 0; fi
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
  fail "the lab's CLIs are pinned for Linux x86_64, and this is $(uname -s) $(uname -m)"
for tool in npm flock; do
  command -v "$tool" > /dev/null || fail "$tool is needed to install the CLIs and is not on PATH"
done
mkdir -p "$dir" || fail "cannot create $dir"
exec 9> "$dir/install.lock" || fail "cannot write in $dir"
flock -n 9 || { echo "install-clis.sh: waiting for another install into $dir" >&2; flock 9; }
if whole; then report; exit 0; fi
rm -f "$stamp"
[ -f "$dir/package.json" ] || echo '{"private":true}' > "$dir/package.json"
(cd "$dir" && npm install --no-audit --no-fund --loglevel=error "${want[@]}" >&2 9>&-) ||
  fail "npm could not install ${want[*]} into $dir (its reason is above); is the npm registry reachable?"
# npm may hold install scripts back; the package's own script links the native binary in place.
if [ "$(wc -c < "$claude_bin")" -lt 1000000 ]; then
  (cd "$dir/node_modules/@anthropic-ai/claude-code" && node install.cjs >&2 9>&-) ||
    fail "the installer of @anthropic-ai/claude-code@$claude failed (its reason is above)"
fi
answers "$claude_bin" "$claude"
answers "$codex_bin" "$codex"
if [ "${1:-}" = --quota-axi ]; then
  PATH="$dir/node_modules/.bin:$PATH" answers "$dir/node_modules/.bin/quota-axi" "$quota_axi"
fi
printf '%s\n' "${want[@]}" > "$stamp.new"
mv "$stamp.new" "$stamp"
report
