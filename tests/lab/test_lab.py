#!/usr/bin/env python3
"""The lab's own promises, without any provider CLI.   python3 -B test_lab.py"""
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

import lab
from lab_accounts import codex_access_token, lab_account

HERE = os.path.dirname(os.path.abspath(__file__))


def run(*args, rc=0):
    done = subprocess.run([sys.executable, "-B", f"{HERE}/lab.py", *args], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if done.returncode != rc:
        raise AssertionError(f"lab.py {args}: rc {done.returncode}: {done.stderr}")
    return done.stdout if rc == 0 else done.stderr


def request(url, path, method="GET", body=None, **headers):
    at = urllib.parse.urlsplit(url)
    conn = http.client.HTTPConnection(at.hostname, at.port, timeout=10)
    conn.request(method, path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
    status = conn.getresponse().status
    conn.close()
    return status


class Lab(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lab-test.", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.dir)

    def up(self, name="a", *args):
        d = f"{self.dir}/{name}"
        env = json.loads(run("up", d, "--accounts", "1", "--json", *args))
        self.addCleanup(run, "down", d)
        return d, env

    def log(self, d, *args):
        return [json.loads(x) for x in run("log", d, *args, "--json").splitlines()]

    def test_the_log_names_the_account_of_a_login_and_the_kind_of_any_other_credential(self):
        d, env = self.up()
        one, url = lab_account(1), env["LAB_ANTHROPIC_URL"]
        request(url, "/api/oauth/profile", authorization="Bearer " + one["claude_access"])
        request(url, "/v1/models", x_api_key="sk-ant-api03-LAB0002-k")
        request(url, "/v1/messages", "POST", "{}", authorization="Bearer somebody-else")
        request(url, "/api/hello")
        seen = [(e["account"], e["credential"], e["credential_account"]) for e in self.log(d, "claude")]
        self.assertEqual(seen, [(1, "login", 1), (None, "api_key", 2), (None, "foreign_token", None),
                                (None, "none", None)])
        request(env["LAB_OPENAI_URL"], "/wham/usage", authorization="Bearer " + codex_access_token(one))
        request(env["LAB_OPENAI_URL"], "/v1/models", authorization="Bearer sk-LAB0003-k")
        seen = [(e["account"], e["credential"]) for e in self.log(d, "codex")]
        self.assertEqual(seen, [(1, "login"), (None, "api_key")])
        self.assertNotIn("somebody-else", run("log", d, "--json", "--bodies"))

    def test_a_refresh_call_is_logged_under_its_account_and_a_second_use_is_refused(self):
        d, env = self.up()
        body = json.dumps({"grant_type": "refresh_token", "refresh_token": lab_account(1)["codex_refresh"]})
        for _ in range(2):
            request(env["LAB_OPENAI_URL"], "/oauth/token", "POST", body)
        seen = [(e["account"], e["credential"], e["refresh"]) for e in self.log(d, "codex")]
        self.assertEqual(seen, [(1, "refresh_token", "ok"), (1, "refresh_token", "reused")])

    def test_other_hosts_are_refused_and_logged_and_known_hosts_are_played(self):
        d, env = self.up()
        at = urllib.parse.urlsplit(env["HTTPS_PROXY"])
        other = http.client.HTTPSConnection(at.hostname, at.port, timeout=10)
        other.set_tunnel("evil.invalid", 443)
        with self.assertRaises(OSError):
            other.request("GET", "/")
        known = http.client.HTTPSConnection(
            at.hostname, at.port, timeout=10, context=ssl.create_default_context(cafile=env["SSL_CERT_FILE"]))
        known.set_tunnel("api.anthropic.com", 443)
        known.request("GET", "/api/hello")
        self.assertEqual(known.getresponse().status, 200)
        known.close()
        seen = {e["target"]: e["verdict"] for e in self.log(d, "proxy")}
        self.assertEqual(seen, {"evil.invalid:443": "REFUSED", "api.anthropic.com:443": "ok"})
        self.assertEqual(self.log(d, "claude")[0]["host"], "api.anthropic.com")

    def test_the_foreign_host_records_every_call_and_is_silent_otherwise(self):
        d, env = self.up()
        self.assertEqual(self.log(d, "foreign"), [])
        request(env["LAB_FOREIGN_URL"], "/v1/messages", "POST", "{}", authorization="Bearer x")
        seen = [(e["method"], e["path"], e["credential"]) for e in self.log(d, "foreign")]
        self.assertEqual(seen, [("CONNECTION", "", "none"), ("POST", "/v1/messages", "authorization")])

    def test_an_answer_is_kept_back_until_the_file_that_its_step_names_is_there(self):
        go = f"{self.dir}/go"
        _, env = self.up()
        one = lab_account(1)
        step = "LAB:" + json.dumps({"text": "now", "after": go})
        body = json.dumps({"messages": [{"role": "user", "content": step}]})
        seen = []
        caller = threading.Thread(target=lambda: seen.append(request(
            env["LAB_ANTHROPIC_URL"], "/v1/messages", "POST", body, authorization="Bearer " + one["claude_access"])))
        caller.start()
        caller.join(0.3)
        self.assertEqual(seen, [])
        with open(go, "w"):
            pass
        caller.join(10)
        self.assertEqual(seen, [200])

    def test_labs_live_side_by_side_and_down_stops_only_its_own(self):
        first, _ = self.up("first")
        second, env = self.up("second")
        self.assertIn("already up", run("up", second, rc=1))
        run("down", first)
        run("down", first)
        self.assertIsNone(lab.owner(first))
        self.assertEqual(request(env["LAB_OPENAI_URL"], "/_lab/health"), 200)

    def test_a_held_lab_ends_with_the_standard_input_of_its_starter(self):
        d = f"{self.dir}/held"
        argv = [sys.executable, "-B", f"{HERE}/lab.py", "up", d, "--accounts", "1", "--hold", "--json"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as held:
            json.loads(held.stdout.readline())
            self.assertIsNotNone(lab.owner(d))
            held.kill()                        # even then the server sees its input end
            held.stdin.close()
        end = time.monotonic() + 10
        while lab.owner(d) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertIsNone(lab.owner(d))

    def test_homes_can_be_made_with_a_login_about_to_end(self):
        d, _ = self.up("short", "--expires-in", "30")
        with open(f"{d}/homes/claude1/.credentials.json") as fh:
            left = json.load(fh)["claudeAiOauth"]["expiresAt"] / 1000 - time.time()
        self.assertTrue(0 < left <= 30, left)


if __name__ == "__main__":
    unittest.main()
