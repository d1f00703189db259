#!/usr/bin/env bash
# Fuzzes what reads bytes that others wrote: `tests/fuzz/run.sh [TARGET] [SECONDS]`, all targets for 60 seconds each
# by default. Inputs that broke a promise are left in tests/fuzz/target/found. Needs cargo-fuzz
# (`cargo install cargo-fuzz --locked`) and a C++ compiler; a stable toolchain will do, since no sanitizer is used:
# the program has no unsafe code outside `sys`.
set -euo pipefail
cd "$(dirname "$0")"

wanted=${1:-all}
seconds=${2:-60}
all=(fuzz_targets/*.rs)
all=("${all[@]##*/}")
all=("${all[@]%.rs}")

case " all ${all[*]} " in
  *" $wanted "*) ;;
  *)
    echo "no target \`$wanted\`: ${all[*]}"
    exit 2
    ;;
esac
if [ "$wanted" = all ]; then
  cargo fuzz build --fuzz-dir . --sanitizer none
  targets=("${all[@]}")
else
  cargo fuzz build --fuzz-dir . --sanitizer none "$wanted"
  targets=("$wanted")
fi

host=$(rustc -vV | sed -n 's/^host: //p')
broken=()
for target in "${targets[@]}"; do
  printf '\n== %s, %s seconds\n' "$target" "$seconds"
  corpus=target/corpus/$target
  mkdir -p "$corpus" target/found
  "target/$host/release/$target" "$corpus" "../../fixtures/fuzz/$target" \
    -dict=words.dict -artifact_prefix="target/found/$target-" \
    -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    2>&1 | tee "target/$target.log" | grep -v -e '^#[0-9]*\s*REDUCE' -e '^#[0-9]*\s*NEW' || true
  if grep -q -e '^Test unit written' "target/$target.log"; then
    broken+=("$target")
  fi
done
if [ ${#broken[@]} -gt 0 ]; then
  printf '\nbroken: %s\n' "${broken[*]}"
  exit 1
fi
