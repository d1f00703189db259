#!/usr/bin/env bash
# Fuzzes what reads bytes that others wrote: `tests/fuzz/run.sh [TARGET] [SECONDS [still]]`, all targets for 60 seconds
# each by default. With `still` rounds of SECONDS follow each other until one reaches no edge of the code that no
# round before it had reached. Inputs that broke a promise are left in tests/fuzz/target/found. Needs cargo-fuzz
# (`cargo install cargo-fuzz --locked`) and a C++ compiler; a stable toolchain will do, since no sanitizer is used:
# the program has no unsafe code outside `sys`.
set -euo pipefail
cd "$(dirname "$0")"

wanted=${1:-all}
seconds=${2:-60}
still=${3:-}
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

# One round; its log is target/TARGET.log.
round() {
  local target=$1 corpus=target/corpus/$1
  mkdir -p "$corpus" target/found
  "target/$host/release/$target" "$corpus" "../../fixtures/fuzz/$target" \
    -dict=words.dict -artifact_prefix="target/found/$target-" \
    -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    2>&1 | tee "target/$target.log" | grep -v -e '^#[0-9]*\s*REDUCE' -e '^#[0-9]*\s*NEW' || true
}

# Edges reached when the inputs were read (INITED), and in the end.
edges() {
  sed -n "s/^#[0-9]*[[:space:]]*$2[[:space:]]*cov: \([0-9]*\).*/\1/p" "target/$1.log" | tail -n 1
}

for target in "${targets[@]}"; do
  printf '\n== %s, %s seconds\n' "$target" "$seconds"
  rounds=0
  while true; do
    round "$target"
    rounds=$((rounds + 1))
    if grep -q -e '^Test unit written' "target/$target.log"; then
      broken+=("$target")
      break
    fi
    [ "$still" = still ] || break
    if [ "$(edges "$target" INITED)" = "$(edges "$target" DONE)" ]; then
      echo "== $target stood still at $(edges "$target" DONE) edges in round $rounds of $seconds seconds"
      break
    fi
  done
done
if [ ${#broken[@]} -gt 0 ]; then
  printf '\nbroken: %s\n' "${broken[*]}"
  exit 1
fi
