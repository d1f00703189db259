"""What the fakes share: the HTTP handler, the request log and the refresh-token rule.

Every request is written to the log when it arrives, before it is answered, with the kind of
credential it carried; what happens later (status, aborted) is appended under the same id. So a
request that hangs, fails or carries no known credential is in the log all the same.
Nothing in here opens an outgoing connection.
"""
import gzip
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lab_accounts import account_of

SECRET_HEADERS = ("authorization", "x-api-key", "cookie", "proxy-authorization")


class RequestLog:
    """Append-only JSON lines; lines with the same id describe the same request."""

    def __init__(self, path=None):
        self.file = open(path, "a", buffering=1) if path else None
        self.lock, self.run, self.serial = threading.Lock(), uuid.uuid4().hex[:8], itertools.count(1)

    def add(self, entry):
        entry["id"] = f"{self.run}-{next(self.serial)}"
        self.write(entry)

    def update(self, entry, **later):
        entry.update(later)
        self.write({"id": entry["id"], **later})

    def write(self, line):
        if self.file:
            with self.lock:
                self.file.write(json.dumps(line) + "\n")


def read_log(path):
    """The requests of one log file, oldest first, later lines merged into their request."""
    found = {}
    try:
        with open(path) as fh:
            for line in fh:
                if line.endswith("\n"):        # the last line may be half written
                    entry = json.loads(line)
                    found.setdefault(entry["id"], {}).update(entry)
    except FileNotFoundError:
        pass
    return list(found.values())


def shown(value):
    """A secret header as the log shows it: synthetic ones readable, others only as a digest."""
    if account_of(value) is not None:
        return value[:34] + "…"
    return "sha256:" + hashlib.sha256(value.encode()).hexdigest()[:16]


class LabHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider = "?"
    server_version = "lab/1"
    entry = None

    def log_message(self, *args):
        pass

    # -- for the fakes
    def hold(self, step):
        """Keeps the answer back as long as its step says."""
        time.sleep(step.get("delay", 0))
        while step.get("after") and not os.path.exists(step["after"]):
            time.sleep(0.02)

    def credentials(self):
        """[{"kind": …, "account": N or None}] for each credential header of the request."""
        return []

    def route(self, path, body, n):
        raise NotImplementedError

    def body(self):
        n = int(self.headers.get("content-length") or 0)
        if n:
            raw = self.rfile.read(n)
        elif "chunked" in (self.headers.get("transfer-encoding") or ""):
            raw = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0] or b"0", 16)
                chunk = self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    break
                raw += chunk
        else:
            return b""
        enc = (self.headers.get("content-encoding") or "").lower()
        if enc == "gzip":
            raw = gzip.decompress(raw)
        elif enc == "zstd" and shutil.which("zstd"):   # codex compresses; make_home.py turns it off
            raw = subprocess.run(["zstd", "-dc"], input=raw, stdout=subprocess.PIPE, check=False).stdout
        return raw

    def send_json(self, obj, status=200, headers=()):
        raw = json.dumps(obj).encode()
        self.note_status(status)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        for k, v in headers:
            self.send_header(k, str(v))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def start_sse(self, headers=()):
        self.note_status(200)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        for k, v in headers:
            self.send_header(k, str(v))
        self.end_headers()

    def sse(self, event, data):
        raw = f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    def end_sse(self):
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def note(self, **later):
        if self.entry is not None:
            self.server.log.update(self.entry, **later)

    def note_status(self, status):
        self.note(status=status)

    def note_grant(self, kind, n):
        """A login or refresh call names its account in the body, not in a header."""
        self.note(credential=kind, account=n, credential_account=n)

    # -- dispatch
    def handle_any(self):
        raw = self.body()
        path = self.path.split("?")[0]
        try:
            parsed = json.loads(raw) if raw else None
        except ValueError:
            parsed = raw.decode("utf-8", "replace")
        if path.startswith("/_lab/"):
            self.entry = None
            return self.admin(path, parsed)
        found = self.credentials()
        caller = found[0]["account"] if found else None
        logins = {c["account"] for c in found} if all(c["kind"] == "login" for c in found) else set()
        headers = {k.lower(): v for k, v in self.headers.items()}
        self.entry = {
            "t": time.time(), "provider": self.provider, "method": self.command, "path": self.path,
            "host": headers.get("host"),
            "account": logins.pop() if len(logins) == 1 else None,
            "credential": "+".join(c["kind"] for c in found) or "none",
            "credential_account": caller, "status": None,
            "headers": {k: shown(v) if k in SECRET_HEADERS else v for k, v in headers.items()},
            "body": parsed}
        self.server.log.add(self.entry)
        with self.server.lock:
            self.server.requests.append(self.entry)
        try:
            return self.route(path, parsed, caller)
        except (BrokenPipeError, ConnectionResetError):
            self.note(aborted=True)
            self.close_connection = True
        except Exception as err:               # a fault of the fake must not look like a quiet provider
            self.note(lab_error=f"{type(err).__name__}: {err}")
            self.close_connection = True
            raise

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = handle_any

    def admin(self, path, parsed):
        srv = self.server
        if path == "/_lab/requests":
            with srv.lock:
                if self.command == "DELETE":
                    srv.requests.clear()
                return self.send_json(list(srv.requests))
        if path == "/_lab/scenario":
            if self.command == "PUT":
                srv.scenario.replace(parsed)
            return self.send_json(srv.scenario.data)
        if path == "/_lab/health":
            return self.send_json({"ok": True, "provider": self.provider})
        return self.send_json({"error": "unknown lab path"}, 404)


class RefreshChain:
    """Refresh tokens are single use, as on the real servers: a second use is refused.

    With `"reuse_revokes": true` on the account a second use also revokes the account.
    `"refresh_reuse": "allow"` switches the rule off, `"refresh_latency": s` widens the race.
    """

    def __init__(self):
        self.lock, self.spent, self.revoked, self.issued = threading.Lock(), set(), set(), 0

    def spend(self, token, acc):
        """("ok", number of the new token), or ("reused" | "revoked", None) when it is refused."""
        with self.lock:
            reused = token in self.spent and acc.get("refresh_reuse") != "allow"
            dead = acc["n"] in self.revoked
            if reused and acc.get("reuse_revokes"):
                self.revoked.add(acc["n"])
            self.spent.add(token)
            self.issued += 1
            number = self.issued
        time.sleep(acc.get("refresh_latency", 0))
        if reused or dead:
            return "reused" if reused else "revoked", None
        return "ok", number


class LabServer(ThreadingHTTPServer):
    """One listener on 127.0.0.1 on a port of the system's choice."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler, scenario, log):
        super().__init__(("127.0.0.1", 0), handler)
        self.scenario, self.requests, self.lock = scenario, [], threading.Lock()
        self.chain, self.log = RefreshChain(), log
        self.port = self.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
