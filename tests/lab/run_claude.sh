#!/usr/bin/env bash
# Proves, with the REAL claude CLI and no internet, that: a turn completes and a
# tool runs; SessionStart fires with our session id; the session resumes; another
# account's home cannot resume it; a usage limit shows as documented.
# usage: run_claude.sh [DIR]        (a DIR of its own is removed after success; a given one stays)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$(mktemp -d /var/tmp/lab.XXXXXX)}
fail() { echo "FAIL: $1 (the lab's files: $dir)"; exit 1; }
ok() { echo "ok   $1"; }
exports=$(python3 -B "$here/lab.py" up "$dir" --accounts 2)
trap 'python3 -B "$here/lab.py" down "$dir"' EXIT
eval "$exports"
[ -x "$CLAUDE_BIN" ] || fail "the CLI is not installed: run $here/install-clis.sh"
clean() {  # the environment a broker should hand over: an allowlist, nothing ambient
  env -i PATH="/usr/local/bin:/usr/bin:/bin" HOME="$HOME" TERM=xterm LANG=C.UTF-8 IS_SANDBOX=1 \
    CLAUDE_CONFIG_DIR="$CLAUDE_CONFIG_DIR" HTTPS_PROXY="$HTTPS_PROXY" NO_PROXY="$NO_PROXY" \
    NODE_EXTRA_CA_CERTS="$NODE_EXTRA_CA_CERTS" DISABLE_AUTOUPDATER=1 "$@"
}
hook="cat >> $dir/hook.jsonl; echo >> $dir/hook.jsonl"
settings=$(python3 -c 'import json,sys; h=[{"hooks":[{"type":"command","command":sys.argv[1]}]}]; print(json.dumps({"hooks":{"SessionStart":h,"StopFailure":h,"SessionEnd":h}}))' "$hook")
sid=$(python3 -c 'import uuid; print(uuid.uuid4())')
cd "$LAB_WS"; rm -f made.txt "$dir/hook.jsonl"
clean "$CLAUDE_BIN" --version
clean "$CLAUDE_BIN" auth status --json | grep -q '"authMethod": "claude.ai"' || fail "auth status"
ok "auth status --json says claude.ai"

clean "$CLAUDE_BIN" -p --session-id "$sid" --settings "$settings" --dangerously-skip-permissions \
  --output-format stream-json --verbose 'LAB:[{"shell":"echo made > made.txt"},{"text":"turn one"}]' > "$dir/1.jsonl" < /dev/null
grep -q '"result":"turn one"' "$dir/1.jsonl" && [ "$(cat made.txt)" = made ] || fail "turn + tool"
ok "turn completed, the Bash tool ran"
grep '"SessionStart"' "$dir/hook.jsonl" | grep -q "$sid" || fail "hook"
ok "SessionStart hook got session_id=$sid"
t="$CLAUDE_CONFIG_DIR/projects/$(pwd | sed 's/[^A-Za-z0-9]/-/g')/$sid.jsonl"
[ -f "$t" ] || fail "transcript at $t"
ok "transcript $t"

clean "$CLAUDE_BIN" -p --resume "$sid" --settings "$settings" --output-format json 'LAB:{"text":"turn two"}' > "$dir/2.json" < /dev/null
grep -q '"result":"turn two"' "$dir/2.json" && grep -q "$sid" "$dir/2.json" || fail "resume"
grep -q '"source":"resume"' "$dir/hook.jsonl" || fail "resume hook"
ok "resumed under the same id (hook source=resume)"

rc=0; CLAUDE_CONFIG_DIR="$dir/homes/claude2" clean "$CLAUDE_BIN" -p --resume "$sid" x > "$dir/3" 2>&1 < /dev/null || rc=$?
[ $rc = 1 ] && grep -q "No conversation found with session ID" "$dir/3" || fail "foreign resume"
ok "another home refuses: $(tail -1 "$dir/3")"

rc=0; clean "$CLAUDE_BIN" -p --settings "$settings" --output-format stream-json --verbose \
  'LAB:{"usage_limit":{"resets_in":7200}}' > "$dir/4.jsonl" < /dev/null || rc=$?
[ $rc = 1 ] && grep -q '"api_error":"usage_limit_reached"\|hit your' "$dir/4.jsonl" || fail "usage limit"
ok "usage limit: rc=1, $(grep -o "You've hit your[^\"]*" "$dir/4.jsonl" | head -1)"
grep '"StopFailure"' "$dir/hook.jsonl" | grep -q rate_limit && ok "StopFailure hook says rate_limit"
echo "hosts refused by the lab proxy (nothing left this machine):"
python3 -B "$here/lab.py" log "$dir" proxy | grep REFUSED | sort | uniq -c || true
if [ $# = 0 ]; then python3 -B "$here/lab.py" down "$dir"; trap - EXIT; rm -rf "$dir"; fi
echo "ALL OK"
