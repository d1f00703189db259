#!/usr/bin/env python3
"""One command for the whole lab.

    lab.py up   DIR [--accounts 3] [--scenario FILE] [--expires-in S] [--hold] [--json]
                                     start, write homes, print the environment
    lab.py env  DIR [--json]         print the environment again
    lab.py set  DIR FILE|-|JSON      replace the scenario (both fakes)
    lab.py log  DIR [claude|codex|foreign|proxy] [--json] [--bodies] [--since T]
                                     what the CLIs really sent, oldest first
    lab.py down DIR                  stop this lab, and nothing else

`eval "$(lab.py up DIR)"` gives a shell in which the REAL claude / codex / quota-axi
talk to the fakes: HTTPS_PROXY + a throw-away CA, no URL override at all.
"""
import argparse
import fcntl
import json
import os
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys

import make_home
from lab_http import read_log

HERE = os.path.dirname(os.path.abspath(__file__))
CLIS = os.environ.get("LAB_CLIS") or os.path.expanduser("~/.cache/agent-fleet-lab-clis")
MODULES = f"{CLIS}/node_modules"
FIND = {  # where install-clis.sh puts the native binaries
    "CLAUDE_BIN": ("claude", f"{MODULES}/@anthropic-ai/claude-code/bin/claude.exe"),
    "CODEX_BIN": ("codex", f"{MODULES}/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"),
    "QUOTA_AXI_BIN": ("quota-axi", f"{MODULES}/.bin/quota-axi"),
}
LOGS = ("claude", "codex", "foreign", "proxy")
START_DEADLINE = 30.0
STOP_DEADLINE = 5.0
FLOCK = "hhqqi"                       # struct flock: type, whence, start, len, pid


def fail(text):
    sys.exit(f"lab: {text}")


def find(name):
    command, installed = FIND[name]
    for path in (os.environ.get(name), installed):
        if path and os.access(path, os.X_OK):
            return path
    return shutil.which(command) or ""


def owner(folder):
    """The pid of the lab that is up in `folder`, as the kernel knows it, or None."""
    try:
        with open(f"{folder}/lab.lock") as fh:
            query = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(fh, fcntl.F_GETLK, query))
    except FileNotFoundError:
        return None
    return None if kind == fcntl.F_UNLCK else pid


def start_server(d, a):
    argv = [sys.executable, "-S", "-B", f"{HERE}/lab_server.py", d]
    if a.scenario:
        argv += ["--scenario", os.path.abspath(a.scenario)]
    if a.hold:
        argv.append("--hold")
    with open(f"{d}/log/server.err", "a") as err:
        server = subprocess.Popen(argv, stdin=None if a.hold else subprocess.DEVNULL, cwd="/",
                                  stdout=subprocess.PIPE, stderr=err, start_new_session=True)
    ready, _, _ = select.select([server.stdout], [], [], START_DEADLINE)
    line = server.stdout.readline() if ready else b""
    if not line:
        server.kill()
        server.wait()
        with open(f"{d}/log/server.err") as fh:
            fail(f"the servers of {d} did not start: {fh.read().strip()[-2000:] or 'no reason given'}")
    return server, json.loads(line)


def make_homes(d, a, ws):
    for n in range(1, a.accounts + 1):
        for provider in ("claude", "codex"):
            home = f"{d}/homes/{provider}{n}"
            if os.path.isdir(home):
                continue
            argv = [provider, str(n), home, "--trust", ws]
            if a.scenario:
                argv += ["--scenario", os.path.abspath(a.scenario)]
            if a.expires_in is not None:
                argv += ["--expires-in", str(a.expires_in)]
            make_home.make(argv)


def up(a):
    d = os.path.abspath(a.dir)
    if owner(d):
        fail(f"a lab is already up in {d}; stop it with: lab.py down {shlex.quote(d)}")
    if a.expires_in is not None and os.path.isdir(f"{d}/homes"):
        fail(f"--expires-in makes new homes, but {d}/homes exists; "
             "use another folder, or make_home.py for one home")
    for tool in ("openssl", "git"):
        if not shutil.which(tool):
            fail(f"the command {tool} is needed and was not found on PATH")
    for sub in ("", "home", "homes", "cache", "ws", "log"):
        os.makedirs(f"{d}/{sub}", mode=0o700, exist_ok=True)
    ws = f"{d}/ws"
    if not os.path.isdir(f"{ws}/.git"):
        subprocess.run(["git", "init", "-q", ws], check=True)
    server, at = start_server(d, a)
    make_homes(d, a, ws)
    local = "127.0.0.1,localhost"
    env = {
        "LAB_DIR": d, "LAB_WS": ws, "LAB_ANTHROPIC_URL": at["anthropic"],
        "LAB_OPENAI_URL": at["openai"], "LAB_FOREIGN_URL": at["foreign"],
        **{name: find(name) for name in FIND},
        "HOME": f"{d}/home", "XDG_CACHE_HOME": f"{d}/cache",
        **{name: at["proxy"] for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")},
        "NO_PROXY": local, "no_proxy": local,
        "NODE_EXTRA_CA_CERTS": at["ca"], "SSL_CERT_FILE": at["ca"], "CODEX_CA_CERTIFICATE": at["ca"],
        "CLAUDE_CONFIG_DIR": f"{d}/homes/claude1", "CODEX_HOME": f"{d}/homes/codex1",
        "DISABLE_AUTOUPDATER": "1",
    }
    with open(f"{d}/lab.json.new", "w") as fh:
        json.dump({"env": env}, fh, indent=1)
    os.replace(f"{d}/lab.json.new", f"{d}/lab.json")
    show(a)
    if a.hold:
        sys.stdout.flush()
        server.wait()


def load(a):
    d = os.path.abspath(a.dir)
    if not owner(d):
        fail(f"nothing is up in {d}; start it with: lab.py up {shlex.quote(d)}")
    with open(f"{d}/lab.json") as fh:
        return json.load(fh)["env"]


def show(a):
    env = load(a)
    if a.json:
        print(json.dumps(env))
        return
    for k, v in env.items():
        print(f"export {k}={shlex.quote(v)}")


def down(a):
    """Signals a process only while the kernel says that it holds this folder's lock."""
    d = os.path.abspath(a.dir)
    pid = owner(d)
    if not pid:
        print(f"lab: nothing is up in {d}", file=sys.stderr)
        return
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    for sig in (signal.SIGTERM, signal.SIGKILL):
        if owner(d) != pid:           # asked again: the handle now names the owner and no later process
            return
        signal.pidfd_send_signal(handle, sig)
        if select.select([handle], [], [], STOP_DEADLINE)[0]:
            return
    fail(f"the lab in {d} (process {pid}) did not stop")


def setsc(a):
    import urllib.request              # slow to load, and needed here alone
    text = a.what
    if text == "-":
        text = sys.stdin.read()
    elif os.path.exists(text):
        with open(text) as fh:
            text = fh.read()
    try:
        json.loads(text)
    except ValueError as err:
        fail(f"the scenario is neither a file nor JSON: {err}")
    env = load(a)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for name in ("LAB_ANTHROPIC_URL", "LAB_OPENAI_URL"):
        put = urllib.request.Request(env[name] + "/_lab/scenario", data=text.encode(), method="PUT")
        opener.open(put, timeout=10).close()


def verdict(e):
    """How the proxy treated a connection: ok, REFUSED (another host) or FAILED (TLS, hang-up)."""
    if not e["routed"]:
        return "REFUSED"
    return "FAILED" if "error" in e and "EOF" not in e["error"] else "ok"


def line(e):
    if e["log"] == "proxy":
        return f"proxy {verdict(e):7} {e['verb']} {e['target']}" + (f" ({e['error']})" if "error" in e else "")
    who = "-" if e["account"] is None else e["account"]
    kind = e["credential"]
    if e["account"] is None and e["credential_account"] is not None:
        kind += f"(LAB{e['credential_account']:04d})"
    extra = "".join(f" {k}={e[k]}" for k in ("refresh", "aborted", "lab_error") if k in e)
    return f"{e['log']} {e['method']} {e['host'] or ''}{e['path']} account {who} by {kind} -> {e['status']}{extra}"


def log(a):
    d = os.path.abspath(a.dir)
    if not os.path.isdir(f"{d}/log"):
        fail(f"there is no lab in {d}")
    found = []
    for name in [a.what] if a.what else LOGS:
        found += [dict(e, log=name) for e in read_log(f"{d}/log/{name}.jsonl") if e["t"] >= a.since]
    for e in sorted(found, key=lambda e: e["t"]):
        if e["log"] == "proxy":
            e["verdict"] = verdict(e)
        if not a.bodies:
            e.pop("headers", None)
            e.pop("body", None)
        print(json.dumps(e) if a.json else line(e))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="cmd", required=True)
    verbs = {}
    for name, fn in (("up", up), ("env", show), ("down", down), ("set", setsc), ("log", log)):
        verbs[name] = sub.add_parser(name)
        verbs[name].set_defaults(fn=fn)
        verbs[name].add_argument("dir")
    verbs["up"].add_argument("--accounts", type=int, default=3)
    verbs["up"].add_argument("--scenario")
    verbs["up"].add_argument("--expires-in", type=int, help="seconds the homes' logins stay fresh")
    verbs["up"].add_argument("--hold", action="store_true", help="stay, and stop when stdin ends")
    for name in ("up", "env", "log"):
        verbs[name].add_argument("--json", action="store_true")
    verbs["set"].add_argument("what")
    verbs["log"].add_argument("what", nargs="?", choices=LOGS)
    verbs["log"].add_argument("--bodies", action="store_true", help="with headers and bodies (--json)")
    verbs["log"].add_argument("--since", type=float, default=0.0, help="epoch seconds")
    a = ap.parse_args()
    a.fn(a)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(0)
