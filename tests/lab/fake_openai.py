"""The fake OpenAI / ChatGPT backend, for the real `codex` CLI.

Paths served (any prefix before them is accepted):
  POST …/responses                          Responses API, SSE
  GET  …/models                             404 -> codex uses its bundled list
  GET  …/wham/usage, …/api/codex/usage      rate-limit status (quota)
  POST /oauth/token                         refresh_token + authorization_code
  POST /oauth/revoke
  POST /api/accounts/deviceauth/usercode    device login, step 1
  POST /api/accounts/deviceauth/token       device login, step 2 (403 = pending)
  GET  /oauth/authorize                     browser login: redirects at once
"""
import json
import re
import time
import urllib.parse

from lab_accounts import (account_of, codex_access_token, codex_id_token, jwt_claims,
                          stable_uuid)
from lab_http import LabHandler

FIVE_H, WEEK = 18000, 604800


class Handler(LabHandler):
    provider = "codex"

    def credentials(self):
        found = []
        for name in ("authorization", "x-api-key"):
            token = (self.headers.get(name) or "").removeprefix("Bearer ")
            if not token:
                continue
            claims = jwt_claims(token)
            user = claims.get("https://api.openai.com/auth", {}).get("chatgpt_user_id")
            n = account_of(claims.get("lab") or user or token)
            kind = "foreign_token" if n is None else "login" if user else "api_key"
            found.append({"kind": kind, "account": n})
        return found

    def route(self, path, body, n):
        sc = self.server.scenario
        acc = sc.account(n) if n is not None else None
        if path.startswith("/api/accounts/deviceauth/") or path.startswith("/oauth/"):
            return self.oauth(path, body)
        if acc and (acc.get("revoked") or n in self.server.chain.revoked):
            return self.send_json({"error": {"message": "Your authentication token has been invalidated.",
                                             "type": "invalid_request_error", "code": "token_invalidated"}}, 401)
        if path.endswith("/responses"):
            if self.command == "GET" or "upgrade" in (self.headers.get("connection") or "").lower():
                # No websocket here: 426 makes codex fall back to HTTPS+SSE.
                return self.send_json({"error": {"message": "websocket not offered"}}, 426)
            return self.model(body, n)
        if path.endswith("/wham/accounts/check"):
            if acc is None:
                return self.send_json({"detail": "Unauthorized"}, 401)
            return self.send_json(accounts_check(acc))
        if path.endswith("/wham/usage") or path.endswith("/api/codex/usage"):
            if acc is None:
                return self.send_json({"detail": "Unauthorized"}, 401)
            if acc.get("usage_status"):
                return self.send_json({"detail": "Too many requests"}, acc["usage_status"],
                                      [("retry-after", "60")])
            return self.send_json(usage(acc))
        if path == "/v1/models":
            if n is None:
                return self.send_json({"error": {"message": "Incorrect API key provided.",
                                                 "code": "invalid_api_key"}}, 401)
            return self.send_json({"object": "list", "data": []})
        return self.send_json({"detail": "Not Found"}, 404)

    # ------------------------------------------------------------- login/refresh
    def oauth(self, path, body):
        sc = self.server.scenario
        sc.reload()
        dev = sc.data.get("device", {})
        if path == "/api/accounts/deviceauth/usercode":
            if dev.get("disabled"):
                return self.send_json({"error": "not enabled"}, 404)
            n = dev.get("account", 1)
            with self.server.lock:
                self.server.pending = {"n": n, "left": dev.get("pending_polls", 1)}
            return self.send_json({"device_auth_id": f"dev_LAB{n:04d}", "user_code": f"LAB{n}-CODE",
                                   "interval": str(dev.get("interval", 1))})
        if path == "/api/accounts/deviceauth/token":
            with self.server.lock:
                p = getattr(self.server, "pending", {"n": dev.get("account", 1), "left": 0})
                p["left"] -= 1
                left = p["left"]
            if dev.get("deny"):
                return self.send_json({"error": "access_denied"}, 400)
            if dev.get("expires") and left < 0:
                return self.send_json({"error": "expired_token"}, 400)
            if left >= 0:
                return self.send_json({"error": "authorization_pending"}, 403)
            return self.send_json({"authorization_code": f"code_LAB{p['n']:04d}",
                                   "code_challenge": "lab-challenge", "code_verifier": "lab-verifier"})
        if path == "/oauth/authorize":
            q = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            n = dev.get("account", 1)
            back = q["redirect_uri"][0] + "?" + urllib.parse.urlencode(
                {"code": f"code_LAB{n:04d}", "state": q["state"][0]})
            self.note_status(302)
            self.send_response(302)
            self.send_header("location", back)
            self.send_header("content-length", "0")
            return self.end_headers()
        if path == "/oauth/revoke":
            return self.send_json({})
        form = body if isinstance(body, dict) else dict(urllib.parse.parse_qsl(body or ""))
        grant = next((k for k in ("refresh_token", "code", "subject_token") if form.get(k)), "none")
        n = account_of(str(form.get(grant, "")))
        if n is None and grant == "subject_token":
            n = account_of(json.dumps(jwt_claims(form[grant])))
        self.note_grant("authorization_code" if grant == "code" else grant, n)
        if n is None:
            return self.send_json({"error": {"code": "refresh_token_invalidated",
                                             "message": "unknown synthetic grant"}}, 401)
        acc = sc.account(n)
        if acc.get("refresh_error"):       # e.g. refresh_token_expired|_reused|_invalidated
            return self.send_json({"error": {"code": acc["refresh_error"],
                                             "message": "lab refresh error"}}, 401)
        if "token-exchange" in form.get("grant_type", ""):
            return self.send_json({"access_token": f"sk-LAB{n:04d}-{'x' * 32}"})
        number = 0
        if form.get("refresh_token"):
            verdict, number = self.server.chain.spend(form["refresh_token"], acc)
            self.note(refresh=verdict)
            if number is None:
                code = "refresh_token_reused" if verdict == "reused" else "refresh_token_invalidated"
                return self.send_json({"error": {"code": code,
                                                 "message": f"lab: refresh refused ({verdict})"}}, 401)
        return self.send_json({"id_token": codex_id_token(acc), "token_type": "Bearer",
                               "access_token": codex_access_token(acc),
                               "refresh_token": f"{acc['codex_refresh']}_{int(time.time())}_{number}",
                               "expires_in": 864000})

    # ------------------------------------------------------------------ the model
    def limit_headers(self, acc, reached=None):
        now = time.time()
        p, s = acc.get("five_hour", 10), acc.get("seven_day", 20)
        if reached is not None:
            if reached.get("window") == "seven_day":
                s = 100
            else:
                p = 100
        return [("x-codex-plan-type", acc.get("chatgpt_plan", "pro")),
                ("x-codex-active-limit", "codex"),
                ("x-codex-primary-used-percent", f"{float(p)}"),
                ("x-codex-primary-window-minutes", FIVE_H // 60),
                ("x-codex-primary-reset-at", int(now + acc.get("five_hour_resets_in", 10800))),
                ("x-codex-secondary-used-percent", f"{float(s)}"),
                ("x-codex-secondary-window-minutes", WEEK // 60),
                ("x-codex-secondary-reset-at", int(now + acc.get("seven_day_resets_in", 345600))),
                ("x-codex-credits-has-credits", "False"),
                ("x-codex-credits-unlimited", "False"),
                ("x-request-id", "req_lab" + stable_uuid(str(now))[:12])]

    def model(self, body, n):
        if not isinstance(body, dict):
            return self.send_json({"error": {"message": "lab: cannot read the body (zstd?)"}}, 415)
        acc = self.server.scenario.account(n) if n is not None else {}
        if n is None:
            return self.send_json({"error": {"message": "Missing bearer", "code": "invalid_api_key",
                                             "type": "invalid_request_error"}}, 401)
        text, results = last_user(body.get("input") or [])
        step = self.server.scenario.step("codex", n, text, results)
        if acc.get("usage_limit"):
            step = {"usage_limit": acc["usage_limit"]}
        self.note(step=step)
        self.hold(step)
        if "usage_limit" in step:
            u = step["usage_limit"]
            wait = int(u.get("resets_in", 10800))
            acc2 = dict(acc)
            acc2["seven_day_resets_in" if u.get("window") == "seven_day" else "five_hour_resets_in"] = wait
            return self.send_json({"error": {
                "type": "usage_limit_reached",
                "message": u.get("message", "The usage limit has been reached"),
                "plan_type": acc.get("chatgpt_plan", "pro"),
                "resets_at": int(time.time() + wait), "resets_in_seconds": wait}},
                429, self.limit_headers(acc2, u))
        if "error" in step:
            e = step["error"]
            return self.send_json({"error": {"message": e.get("message", "lab error"),
                                             "type": e.get("type", "server_error"),
                                             "code": e.get("code")}}, e.get("status", 500))
        rid = "resp_lab" + stable_uuid(str(time.time_ns()))[:18].replace("-", "")
        items = []
        if step.get("text") is not None:
            items.append({"type": "message", "role": "assistant", "id": "msg_" + rid,
                          "content": [{"type": "output_text", "text": step["text"], "annotations": []}]})
        call = tool_call(step, offered(body), "call_" + rid)
        if call:
            items.append(call)
        if not items:
            items.append({"type": "message", "role": "assistant", "id": "msg_" + rid,
                          "content": [{"type": "output_text", "text": "ok", "annotations": []}]})
        usage_ = {"input_tokens": 120, "input_tokens_details": {"cached_tokens": 100},
                  "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 0},
                  "total_tokens": 127}
        usage_.update(step.get("usage", {}))
        usage_["total_tokens"] = usage_["input_tokens"] + usage_["output_tokens"]
        self.start_sse(self.limit_headers(acc))
        self.sse("response.created", {"type": "response.created", "response": {"id": rid}})
        for i, item in enumerate(items):
            if item["type"] == "message":
                self.sse("response.output_item.added", {"type": "response.output_item.added",
                         "output_index": i, "item": dict(item, content=[])})
                for piece in re.findall(r"\S+\s*|\s+", item["content"][0]["text"]) or [""]:
                    if step.get("slow"):
                        time.sleep(step["slow"])
                    self.sse("response.output_text.delta", {"type": "response.output_text.delta",
                             "item_id": item["id"], "output_index": i, "content_index": 0, "delta": piece})
            self.sse("response.output_item.done", {"type": "response.output_item.done",
                     "output_index": i, "item": item})
        if step.get("hang"):
            time.sleep(step["hang"])
        self.sse("response.completed", {"type": "response.completed", "response": {
            "id": rid, "model": body.get("model"), "status": "completed", "usage": usage_,
            "end_turn": call is None}})
        self.end_sse()


def offered(body):
    """Every tool on offer. Newer models get theirs in an `additional_tools` input
    item, nested in a namespace, instead of in body["tools"]."""
    out = []

    def walk(tools, ns=None):
        for t in tools or []:
            if t.get("type") == "namespace":
                walk(t.get("tools"), t.get("name"))
            else:
                out.append(dict(t, _ns=ns))
    walk(body.get("tools"))
    for it in body.get("input") or []:
        if it.get("type") == "additional_tools":
            walk(it.get("tools"))
    return out


def tool_call(step, tools, call_id):
    """Translate a scenario step into a call of a tool this codex really offers."""
    names = {}
    for t in tools:
        if t.get("name"):
            names[t["name"]] = t
    cmd = None
    if "shell" in step:
        cmd = step["shell"]
    elif "write" in step:
        q = json.dumps  # a here-doc through the shell works with every tool set
        body = step["write"]["content"]
        cmd = f"cat > {q(step['write']['path'])} <<'LAB_EOF'\n{body}\nLAB_EOF"
    if cmd is not None:
        if "exec_command" in names:
            return fc(call_id, "exec_command", {"cmd": cmd})
        if "shell_command" in names:
            return fc(call_id, "shell_command", {"command": cmd})
        if "shell" in names:
            return fc(call_id, "shell", {"command": ["bash", "-lc", cmd]})
        if "exec" in names:                       # "code mode": one JavaScript tool
            js = f"const r = await tools.exec_command({{cmd: {json.dumps(cmd)}}}); text(r.output);"
            item = {"type": "custom_tool_call", "id": "ctc_" + call_id, "call_id": call_id,
                    "name": "exec", "input": js}
            if names["exec"]["_ns"]:
                item["namespace"] = names["exec"]["_ns"]
            return item
    if "tool" in step:
        t = step["tool"]
        if names.get(t["name"], {}).get("type") == "custom":
            return {"type": "custom_tool_call", "call_id": call_id, "name": t["name"], "input": t["input"]}
        return fc(call_id, t["name"], t["input"])
    return None


def fc(call_id, name, args):
    return {"type": "function_call", "id": "fc_" + call_id, "call_id": call_id, "name": name,
            "arguments": json.dumps(args)}


def last_user(items):
    results = 0
    for it in reversed(items):
        if it.get("type", "").endswith("_call_output"):
            results += 1
        if it.get("type", "message") == "message" and it.get("role") == "user":
            texts = [c.get("text", "") for c in it.get("content", []) if c.get("type") == "input_text"]
            texts = [t for t in texts if not t.lstrip().startswith("<")]
            if texts:
                return texts[-1], results
    return "", results


def accounts_check(acc):
    """Workspace routing. codex 0.171 asks this before every turn and refuses to
    talk to the model when the answer lacks its account or is not https."""
    return {"accounts": [{
        "id": acc["chatgpt_account_id"], "name": acc["name"], "structure": "personal",
        "plan_type": acc["chatgpt_plan"], "account_user_role": "account-owner",
        "workspace_backend_origin": acc.get("backend_origin", "https://chatgpt.com"),
        "account_routing_override": "NO_CONSTRAINT"}],
        "account_ordering": [acc["chatgpt_account_id"]],
        "default_account_id": acc["chatgpt_account_id"]}


def usage(acc):
    now = time.time()

    def win(used, secs, left):
        return {"used_percent": used, "limit_window_seconds": secs,
                "reset_after_seconds": int(left), "reset_at": int(now + left)}
    p, s = acc.get("five_hour", 10), acc.get("seven_day", 20)
    if acc.get("usage_limit"):
        p = 100
    hit = p >= 100 or s >= 100
    out = {"user_id": acc["chatgpt_user_id"], "account_id": acc["chatgpt_account_id"],
           "email": acc["email"], "plan_type": acc["chatgpt_plan"],
           "rate_limit": {"allowed": not hit, "limit_reached": hit,
                          "primary_window": win(p, FIVE_H, acc.get("five_hour_resets_in", 10800)),
                          "secondary_window": win(s, WEEK, acc.get("seven_day_resets_in", 345600))},
           "code_review_rate_limit": None, "additional_rate_limits": [],
           "credits": {"has_credits": False, "unlimited": False, "balance": "0",
                       "approx_local_messages": None, "approx_cloud_messages": None},
           "promo": None}
    if hit:
        out["rate_limit_reached_type"] = {"type": "rate_limit_reached"}
    out.update(acc.get("usage_override", {}))
    return out
