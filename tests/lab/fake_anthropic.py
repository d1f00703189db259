"""The fake Anthropic API, for the real `claude` CLI."""
import json
import re
import time

from lab_accounts import account_of, iso, stable_uuid
from lab_http import LabHandler

RESET_DEFAULT = 3 * 3600


def is_setup_token(headers):
    return "-setup-" in (headers.get("authorization") or "")


class Handler(LabHandler):
    provider = "claude"

    def credentials(self):
        found = []
        for name in ("authorization", "x-api-key"):
            value = self.headers.get(name)
            if not value:
                continue
            n = account_of(value)
            if n is None:
                kind = "foreign_token" if name == "authorization" else "foreign_key"
            else:
                kind = "login" if name == "authorization" and "sk-ant-oat" in value else "api_key"
            found.append({"kind": kind, "account": n})
        return found

    def route(self, path, body, n):
        sc = self.server.scenario
        acc = sc.account(n) if n is not None else None
        if path == "/v1/messages":
            return self.messages(body, n)
        if path == "/v1/messages/count_tokens":
            return self.send_json({"input_tokens": 100})
        if path in ("/v1/oauth/token", "/oauth/token"):
            return self.token(body)
        if path.startswith("/api/") and acc is None and "oauth" in path:
            return self.send_json({"type": "error", "error": {
                "type": "authentication_error", "message": "OAuth authentication is required"}}, 401)
        if acc and (acc.get("revoked") or n in self.server.chain.revoked):
            return self.send_json({"type": "error", "error": {
                "type": "authentication_error", "message": "OAuth token has been revoked."}}, 401)
        if path in ("/api/oauth/profile", "/api/oauth/usage") and is_setup_token(self.headers):
            # A token of `claude setup-token` is good for inference alone, unless the scenario says otherwise.
            if not acc.get("setup_token_names"):
                return self.send_json({"type": "error", "error": {
                    "type": "permission_error", "message":
                    "OAuth token does not meet scope requirement user:profile"}}, 403)
        if path == "/api/oauth/usage":
            if acc.get("usage_status"):                     # e.g. 429 on the usage endpoint
                return self.send_json({"type": "error", "error": {"type": "rate_limit_error",
                                       "message": "Rate limited."}}, acc["usage_status"],
                                      [("retry-after", "60")])
            return self.send_json(usage(acc))
        if path == "/api/oauth/profile":
            return self.send_json(profile(acc))
        if path == "/api/oauth/claude_cli/roles":
            return self.send_json({"organization_role": "admin", "workspace_role": None,
                                   "organization_name": acc["org_name"]})
        if path == "/api/oauth/claude_cli/create_api_key":
            return self.send_json({"raw_key": f"sk-ant-api03-LAB{n:04d}-{'k' * 40}"})
        if path == "/v1/models":
            if n is None:
                return self.send_json({"type": "error", "error": {
                    "type": "authentication_error", "message": "invalid x-api-key"}}, 401)
            return self.send_json({"data": [], "has_more": False})
        if path in ("/api/hello", "/v1/oauth/hello"):     # the onboarding's connectivity check
            return self.send_json({"message": "hello"})
        # Telemetry, feature flags, settings sync, bootstrap …: all optional.
        return self.send_json({}, 200 if self.command == "POST" else 404)

    def token(self, body):
        """authorization_code and refresh_token grants. The code is `LAB0001`-like."""
        body = body if isinstance(body, dict) else dict(
            p.split("=", 1) for p in (body or "").split("&") if "=" in p)
        n = account_of((body.get("refresh_token") or "") + (body.get("code") or ""))
        self.note_grant("refresh_token" if body.get("refresh_token") else "authorization_code", n)
        if n is None:
            return self.send_json({"error": "invalid_grant",
                                   "error_description": "unknown synthetic grant"}, 400)
        acc = self.server.scenario.account(n)
        if acc.get("revoked"):
            return self.send_json({"error": "invalid_grant",
                                   "error_description": "Refresh token revoked"}, 400)
        number = 0
        if body.get("refresh_token"):
            verdict, number = self.server.chain.spend(body["refresh_token"], acc)
            self.note(refresh=verdict)
            if number is None:
                return self.send_json({"error": "invalid_grant",
                                       "error_description": "Refresh token not found or invalid"}, 400)
        return self.send_json({
            "token_type": "Bearer", "access_token": f"{acc['claude_access']}-{number}",
            "refresh_token": f"{acc['claude_refresh']}-{number}", "expires_in": acc.get("access_ttl", 28800),
            "scope": body.get("scope") or "user:inference user:profile "
                     "user:sessions:claude_code user:mcp_servers user:file_upload",
            "organization": {"uuid": acc["org_uuid"], "name": acc["org_name"]},
            "account": {"uuid": acc["account_uuid"], "email_address": acc["email"]}})

    def limit_headers(self, n, step=None):
        acc = self.server.scenario.account(n) if n is not None else {}
        now = time.time()
        h = [("request-id", "req_lab" + stable_uuid(str(now))[:12]),
             ("anthropic-organization-id", acc.get("org_uuid", "lab"))]
        rejected = (step or {}).get("usage_limit")
        u5 = acc.get("five_hour", 10) / 100
        u7 = acc.get("seven_day", 20) / 100
        r5 = int(now + acc.get("five_hour_resets_in", RESET_DEFAULT))
        r7 = int(now + acc.get("seven_day_resets_in", 4 * 86400))
        status, claim = "allowed", "five_hour"
        if rejected is not None:
            claim = rejected.get("window", "five_hour")
            reset = int(now + rejected.get("resets_in", RESET_DEFAULT))
            status = "rejected"
            if claim == "five_hour":
                u5, r5 = 1.0, reset
            else:
                u7, r7 = 1.0, reset
        p = "anthropic-ratelimit-unified-"
        h += [(p + "status", status), (p + "representative-claim", claim),
              (p + "reset", r5 if claim == "five_hour" else r7),
              (p + "5h-status", "rejected" if status == "rejected" and claim == "five_hour" else "allowed"),
              (p + "5h-utilization", u5), (p + "5h-reset", r5),
              (p + "7d-status", "rejected" if status == "rejected" and claim != "five_hour" else "allowed"),
              (p + "7d-utilization", u7), (p + "7d-reset", r7),
              (p + "fallback-percentage", "0.5"),
              (p + "overage-status", "rejected"),
              (p + "overage-disabled-reason", "org_level_disabled")]
        return h

    def messages(self, body, n):
        acc = self.server.scenario.account(n) if n is not None else {}
        if n is None or acc.get("revoked") or n in self.server.chain.revoked:
            return self.send_json({"type": "error", "error": {
                "type": "authentication_error", "message": "Invalid bearer token"}}, 401)
        text, results = last_user(body.get("messages", []))
        tools = {t.get("name") for t in body.get("tools") or []}
        # Side calls (title, quota probe, summaries) carry no tools: plain reply,
        # except that usage_limit still applies to the whole account.
        step = self.server.scenario.step("claude", n, text, results)
        if acc.get("usage_limit"):
            step = {"usage_limit": acc["usage_limit"]}
        self.note(step=step)
        self.hold(step)
        if "usage_limit" in step:
            h = self.limit_headers(n, step)
            reset = dict(h)["anthropic-ratelimit-unified-reset"]
            return self.send_json({"type": "error", "error": {
                "type": "rate_limit_error",
                "message": step["usage_limit"].get("message", "This request would exceed your account's rate limit. Please try again later.")},
                "request_id": dict(h)["request-id"]}, 429,
                h + [("retry-after", max(1, int(reset - time.time()))), ("x-should-retry", "false")])
        if "error" in step:
            e = step["error"]
            return self.send_json({"type": "error", "error": {
                "type": e.get("type", "api_error"), "message": e.get("message", "lab error")}},
                e.get("status", 500), [("x-should-retry", str(e.get("retry", False)).lower())])
        blocks, stop = [], "end_turn"
        if step.get("text") is not None:
            blocks.append({"type": "text", "text": step["text"]})
        name = inp = None
        if "shell" in step:
            name, inp = "Bash", {"command": step["shell"], "description": "lab step"}
        elif "write" in step:
            name, inp = "Write", {"file_path": step["write"]["path"],
                                  "content": step["write"]["content"]}
        elif "tool" in step:
            name, inp = step["tool"]["name"], step["tool"]["input"]
        if name and (name in tools):
            blocks.append({"type": "tool_use", "id": "toolu_lab" + stable_uuid(str(time.time_ns()))[:18].replace("-", ""),
                           "name": name, "input": inp})
            stop = "tool_use"
        if not blocks:
            blocks = [{"type": "text", "text": "ok"}]
        usage = {"input_tokens": 12, "cache_creation_input_tokens": 0,
                 "cache_read_input_tokens": 100, "output_tokens": 7,
                 "service_tier": "standard"}
        usage.update(step.get("usage", {}))
        mid = "msg_lab" + stable_uuid(str(time.time_ns()))[:18].replace("-", "")
        base = {"id": mid, "type": "message", "role": "assistant", "model": body.get("model"),
                "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        h = self.limit_headers(n)
        if not body.get("stream"):
            base.update(content=blocks, stop_reason=stop)
            return self.send_json(base, 200, h)
        self.start_sse(h)
        self.sse("message_start", {"type": "message_start", "message": base})
        for i, b in enumerate(blocks):
            if b["type"] == "text":
                self.sse("content_block_start", {"type": "content_block_start", "index": i,
                                                 "content_block": {"type": "text", "text": ""}})
                for piece in re.findall(r"\S+\s*|\s+", b["text"]) or [""]:
                    if step.get("slow"):
                        time.sleep(step["slow"])
                    self.sse("content_block_delta", {"type": "content_block_delta", "index": i,
                             "delta": {"type": "text_delta", "text": piece}})
            else:
                self.sse("content_block_start", {"type": "content_block_start", "index": i,
                         "content_block": dict(b, input={})})
                self.sse("content_block_delta", {"type": "content_block_delta", "index": i,
                         "delta": {"type": "input_json_delta", "partial_json": json.dumps(b["input"])}})
            self.sse("content_block_stop", {"type": "content_block_stop", "index": i})
        if step.get("hang"):
            time.sleep(step["hang"])
        self.sse("message_delta", {"type": "message_delta",
                 "delta": {"stop_reason": stop, "stop_sequence": None},
                 "usage": {"output_tokens": usage["output_tokens"]}})
        self.sse("message_stop", {"type": "message_stop"})
        self.end_sse()


def last_user(messages):
    """(last real user text, number of tool_result turns after it)."""
    results = 0
    for m in reversed(messages):
        if m.get("role") != "user":
            continue
        c = m.get("content")
        if isinstance(c, str):
            return c, results
        if any(b.get("type") == "tool_result" for b in c):
            results += 1
            continue
        # system reminders are separate text blocks; the prompt is the last one
        texts = [b["text"] for b in c if b.get("type") == "text"
                 and not b["text"].lstrip().startswith("<system-reminder>")]
        if texts:
            return texts[-1], results
    return "", results


def usage(acc):
    now = time.time()
    r5 = iso(now + acc.get("five_hour_resets_in", RESET_DEFAULT))
    r7 = iso(now + acc.get("seven_day_resets_in", 4 * 86400))
    u5, u7 = acc.get("five_hour", 10), acc.get("seven_day", 20)
    if acc.get("usage_limit"):
        u5 = 100
    out = {"five_hour": {"utilization": float(u5), "resets_at": r5},
           "seven_day": {"utilization": float(u7), "resets_at": r7},
           "seven_day_oauth_apps": None, "seven_day_opus": None,
           "seven_day_sonnet": {"utilization": 0.0, "resets_at": None},
           "extra_usage": {"is_enabled": False, "monthly_limit": None, "used_credits": None,
                           "utilization": None},
           "limits": [
               {"kind": "session", "group": "session", "percent": u5, "severity": "normal",
                "resets_at": r5, "scope": None, "is_active": True},
               {"kind": "weekly_all", "group": "weekly", "percent": u7, "severity": "normal",
                "resets_at": r7, "scope": None, "is_active": False}]}
    out.update(acc.get("usage_override", {}))
    return out


def profile(acc):
    return {"account": {"uuid": acc["account_uuid"], "full_name": acc["name"],
                        "display_name": acc["name"], "email": acc["email"],
                        "has_claude_max": acc["claude_plan"] == "max",
                        "has_claude_pro": acc["claude_plan"] == "pro",
                        "created_at": "2025-01-01T00:00:00.000000Z"},
            "organization": {"uuid": acc["org_uuid"], "name": acc["org_name"],
                             "organization_type": "claude_" + acc["claude_plan"],
                             "billing_type": "stripe_subscription",
                             "rate_limit_tier": "default_claude_max_20x",
                             "has_extra_usage_enabled": False,
                             "subscription_status": "active",
                             "subscription_created_at": "2025-01-01T00:00:00.000000Z"},
            "application": {"uuid": "9d1c250a-e61b-44d9-88ed-5944d1962f5e",
                            "name": "Claude Code", "slug": "claude-code"}}
