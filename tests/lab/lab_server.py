"""The one process of a lab: both fakes, the foreign host and the proxy. Started by lab.py.

    lab_server.py DIR [--scenario FILE] [--hold]

It holds a lock on DIR/lab.lock for as long as it lives, so the kernel itself can say whether the
lab is up and which process that is. It prints one JSON line when all listeners answer. With
--hold it leaves when its standard input ends, so it cannot outlive a test that was killed.
"""
import argparse
import fcntl
import json
import os
import sys
import threading

import fake_anthropic
import fake_foreign
import fake_openai
from lab_http import LabServer, RequestLog
from lab_scenario import Scenario
from tls_proxy import TlsProxy


def leave_with_stdin():
    while os.read(0, 4096):
        pass
    os._exit(0)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("dir")
    ap.add_argument("--scenario")
    ap.add_argument("--hold", action="store_true")
    args = ap.parse_args()
    lock = open(f"{args.dir}/lab.lock", "a")
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"a lab is already up in {args.dir}")

    def log(name):
        return RequestLog(f"{args.dir}/log/{name}.jsonl")

    anthropic = LabServer(fake_anthropic.Handler, Scenario(args.scenario), log("claude"))
    openai = LabServer(fake_openai.Handler, Scenario(args.scenario), log("codex"))
    foreign = fake_foreign.ForeignServer(fake_foreign.Handler, Scenario(), log("foreign"))
    proxy = TlsProxy(f"{args.dir}/ca", anthropic.port, openai.port, log("proxy"))
    for server in (anthropic, openai, foreign, proxy):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"anthropic": anthropic.url, "openai": openai.url, "foreign": foreign.url,
                      "proxy": proxy.url, "ca": proxy.ca}), flush=True)
    if args.hold:
        leave_with_stdin()
    threading.Event().wait()


if __name__ == "__main__":
    main()
