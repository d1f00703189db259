"""Loopback TLS front for the fakes, so that URLs which a CLI will not let you redirect
(https://api.anthropic.com/api/oauth/usage, https://chatgpt.com/…) are exercised for real.

It is an HTTP CONNECT proxy on 127.0.0.1. A CONNECT to a known provider host is answered with a
certificate of the lab's own throw-away CA and the plaintext is relayed to the matching fake.
EVERY OTHER HOST IS REFUSED (403) and logged, plain http:// requests included, so it doubles as a
leak detector. It never dials anything but 127.0.0.1.
"""
import os
import socket
import ssl
import subprocess
import threading
import time

ANTHROPIC = ("api.anthropic.com", "platform.claude.com", "console.anthropic.com",
             "claude.ai", "claude.com", "mcp-proxy.anthropic.com", "statsig.anthropic.com",
             "downloads.claude.ai", "code.claude.com")
OPENAI = ("chatgpt.com", "auth.openai.com", "api.openai.com", "ab.chatgpt.com")
REFUSAL = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def make_ca(folder):
    """One CA and one leaf for all hosts, made with the openssl command. Kept when whole."""
    os.makedirs(folder, mode=0o700, exist_ok=True)

    def at(name):
        return os.path.join(folder, name)

    def openssl(*args):
        done = subprocess.run(("openssl",) + args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"openssl {args[0]} failed: {done.stdout.strip()}")

    if os.path.exists(at("whole")):
        return at("ca.pem")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-days", "30",
            "-subj", "/CN=agent-fleet lab CA", "-keyout", at("ca.key"), "-out", at("ca.pem"),
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign,cRLSign")
    openssl("req", *key, "-subj", "/CN=lab",
            "-keyout", at("leaf.key"), "-out", at("leaf.csr"))
    with open(at("ext"), "w") as fh:
        fh.write("subjectAltName=" + ",".join("DNS:" + h for h in ANTHROPIC + OPENAI)
                 + "\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-in", at("leaf.csr"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"),
            "-CAcreateserial", "-days", "30", "-extfile", at("ext"), "-out", at("leaf.pem"))
    with open(at("whole"), "w"):
        pass
    return at("ca.pem")


def pump(src, dst):
    try:
        while True:
            data = src.recv(65536)
            if not data:
                break
            dst.sendall(data)
    except OSError:
        pass
    finally:
        for s in (src, dst):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class TlsProxy:
    def __init__(self, ca_dir, anthropic_port, openai_port, log):
        self.ca = make_ca(ca_dir)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(os.path.join(ca_dir, "leaf.pem"), os.path.join(ca_dir, "leaf.key"))
        self.context.set_alpn_protocols(["http/1.1"])
        self.routes = {h: anthropic_port for h in ANTHROPIC}
        self.routes.update({h: openai_port for h in OPENAI})
        self.log = log
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def serve_forever(self):
        while True:
            conn, _ = self.socket.accept()
            threading.Thread(target=self.client, args=(conn,), daemon=True).start()

    def client(self, conn):
        entry = {"t": time.time(), "verb": None, "target": None, "routed": False}
        try:
            head = b""
            while b"\r\n\r\n" not in head and len(head) < 16384:
                chunk = conn.recv(4096)
                if not chunk:
                    break
                head += chunk
            words = head.split(b"\r\n")[0].decode("latin1").split(" ")
            entry.update(verb=words[0], target=words[1] if len(words) > 1 else "")
            port = self.routes.get(entry["target"].rsplit(":", 1)[0]) if entry["verb"] == "CONNECT" else None
            entry["routed"] = bool(port)
            self.log.add(entry)
            if not port:
                conn.sendall(REFUSAL)
                return
            conn.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            tls = self.context.wrap_socket(conn, server_side=True)
            up = socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=pump, args=(up, tls), daemon=True).start()
            pump(tls, up)
        except (OSError, ValueError) as err:   # a client that does not trust the lab's CA ends here
            if "id" in entry:
                self.log.update(entry, error=str(err))
            else:
                self.log.add(dict(entry, error=str(err)))
        finally:
            conn.close()
