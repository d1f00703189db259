#!/usr/bin/env bash
# The same proofs with the REAL codex CLI, plus: device login against the stub,
# and account/quota through `codex app-server`.   usage: run_codex.sh [DIR]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$(mktemp -d /var/tmp/lab.XXXXXX)}
fail() { echo "FAIL: $1 (the lab's files: $dir)"; exit 1; }
ok() { echo "ok   $1"; }
exports=$(python3 -B "$here/lab.py" up "$dir" --accounts 2)
trap 'python3 -B "$here/lab.py" down "$dir"' EXIT
eval "$exports"
[ -x "$CODEX_BIN" ] || fail "the CLI is not installed: run $here/install-clis.sh"
clean() {
  env -i PATH="/usr/local/bin:/usr/bin:/bin" HOME="$HOME" TERM=xterm LANG=C.UTF-8 \
    CODEX_HOME="$CODEX_HOME" HTTPS_PROXY="$HTTPS_PROXY" NO_PROXY="$NO_PROXY" \
    CODEX_CA_CERTIFICATE="$CODEX_CA_CERTIFICATE" "$@"
}
cd "$LAB_WS"; rm -f made.txt "$dir/hook.jsonl"
cat > "$CODEX_HOME/hooks.json" <<J
{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"cat >> $dir/hook.jsonl; echo >> $dir/hook.jsonl","timeout":10}]}]}}
J
clean "$CODEX_BIN" --version
clean "$CODEX_BIN" login status 2>&1 | grep -q "Logged in using ChatGPT" || fail "login status"
ok "login status (text is on stderr)"
clean python3 -B "$here/codex_rpc.py" "$CODEX_BIN" > "$dir/rpc"
grep -q '"email": "acct1@lab.invalid"' "$dir/rpc" && grep -q '"usedPercent": 10' "$dir/rpc" || fail "app-server"
ok "app-server: account/read and account/rateLimits/read"

clean "$CODEX_BIN" exec --json -s danger-full-access --dangerously-bypass-hook-trust \
  'LAB:[{"shell":"echo made > made.txt"},{"text":"turn one"}]' > "$dir/1.jsonl" 2> "$dir/1.err" < /dev/null
grep -q '"text":"turn one"' "$dir/1.jsonl" && [ "$(cat made.txt)" = made ] || fail "turn + tool"
sid=$(sed -n 's/.*"thread.started","thread_id":"\([^"]*\)".*/\1/p' "$dir/1.jsonl")
ok "turn completed, the shell tool ran, thread $sid"
grep '"SessionStart"' "$dir/hook.jsonl" | grep -q "$sid" || fail "hook"
ok "SessionStart hook got session_id=$sid"

clean "$CODEX_BIN" exec resume --json --dangerously-bypass-hook-trust "$sid" 'LAB:{"text":"turn two"}' > "$dir/2.jsonl" 2>> "$dir/1.err" < /dev/null
grep -q '"text":"turn two"' "$dir/2.jsonl" && grep -q "$sid" "$dir/2.jsonl" || fail "resume"
grep -q '"source":"resume"' "$dir/hook.jsonl" || fail "resume hook"
ok "resumed under the same id (hook source=resume)"

n=$(wc -l < "$dir/hook.jsonl")
clean "$CODEX_BIN" exec --json 'LAB:{"text":"untrusted"}' > "$dir/2b.jsonl" 2>> "$dir/1.err" < /dev/null
[ "$(wc -l < "$dir/hook.jsonl")" = "$n" ] || fail "untrusted hook ran"
ok "without hook trust the hook is SILENTLY skipped"

rc=0; CODEX_HOME="$dir/homes/codex2" clean "$CODEX_BIN" exec resume --json "$sid" x > "$dir/3" 2>&1 < /dev/null || rc=$?
[ $rc = 1 ] && grep -q "no rollout found for thread id" "$dir/3" || fail "foreign resume"
ok "another home refuses: $(grep -o 'no rollout found.*' "$dir/3")"

rc=0; clean "$CODEX_BIN" exec --json 'LAB:{"usage_limit":{"resets_in":7200}}' > "$dir/4.jsonl" 2>> "$dir/1.err" < /dev/null || rc=$?
[ $rc = 1 ] && grep -q 'hit your usage limit' "$dir/4.jsonl" || fail "usage limit"
ok "usage limit: rc=1, $(grep -o 'You.ve hit your usage limit[^"]*' "$dir/4.jsonl" | head -1)"
grep -rq '"codex_error_info":"usage_limit_exceeded"' "$CODEX_HOME/sessions" && ok "rollout task_complete.error.codex_error_info=usage_limit_exceeded"

mkdir -p "$dir/homes/fresh"; chmod 700 "$dir/homes/fresh"
python3 -B "$here/lab.py" set "$dir" '{"device":{"account":7,"pending_polls":1}}'
CODEX_HOME="$dir/homes/fresh" clean "$CODEX_BIN" login --device-auth > "$dir/5" 2>&1 < /dev/null
grep -q "Successfully logged in" "$dir/5" || fail "device login"
CODEX_HOME="$dir/homes/fresh" clean python3 -B "$here/codex_rpc.py" "$CODEX_BIN" | grep -q acct7@lab.invalid || fail "identity after login"
ok "device login against the stub; the new home is acct7@lab.invalid"
echo "hosts refused by the lab proxy:"
python3 -B "$here/lab.py" log "$dir" proxy | grep REFUSED | sort | uniq -c || true
if [ $# = 0 ]; then python3 -B "$here/lab.py" down "$dir"; trap - EXIT; rm -rf "$dir"; fi
echo "ALL OK"
