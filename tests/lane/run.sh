#!/usr/bin/env bash
# The lane: the product with the REAL provider CLIs, against the lab (tests/lab). No account, and no
# network once the CLIs are installed.
#
#   tests/lane/run.sh [TEST-NAME...]      all tests, or those whose names contain one of the words
#
# It fails with one sentence when the CLIs or the tools it needs cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "run.sh: $*" >&2; exit 1; }
for tool in cargo git openssl python3 tmux; do
  command -v "$tool" > /dev/null || fail "$tool is needed by the lane and is not on PATH"
done
"$here/../lab/install-clis.sh" --quota-axi || fail "the provider CLIs could not be installed (the reason is above)"
cd "$here/../.."
# A shell starts what it puts into the background with Ctrl-C ignored, and tests press Ctrl-C.
# The tests mostly wait for other programs, so more of them run at once than there are processors.
exec env --default-signal=INT cargo test --quiet --features lane,test-fakes --test lane -- --test-threads "${LANE_THREADS:-4}" "$@"
