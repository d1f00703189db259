#!/usr/bin/env python3
"""Write a synthetic, logged-in home for account N of one provider.

    make_home.py claude N DIR [--expires-in S] [--no-profile] [--api-key] [--scenario FILE]
    make_home.py codex  N DIR [--expires-in S] [--base-url URL] [--api-key] [--stale] [--scenario FILE]

Prints one JSON line: the folder, the identity and the environment to export.
All tokens are invented (they contain LABnnnn, by which the fake servers know
the account). File modes follow the real CLIs: 0700 folder, 0600 secrets.
"""
import argparse
import json
import os
import time
from datetime import datetime, timezone

from lab_accounts import codex_access_token, codex_id_token
from lab_scenario import Scenario


def put(path, data, mode=0o600):
    if not isinstance(data, str):
        data = json.dumps(data, indent=2) + "\n"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    os.fchmod(fd, mode)
    with os.fdopen(fd, "w") as fh:
        fh.write(data)


def claude(args, acc):
    put(f"{args.dir}/.credentials.json", {"claudeAiOauth": {
        "accessToken": acc["claude_access"], "refreshToken": acc["claude_refresh"],
        "expiresAt": int((time.time() + args.expires_in) * 1000),
        "scopes": ["user:inference", "user:profile", "user:sessions:claude_code",
                   "user:mcp_servers", "user:file_upload"],
        "subscriptionType": acc["claude_plan"],
        "rateLimitTier": "default_claude_max_20x"}})
    conf = {"hasCompletedOnboarding": True, "lastOnboardingVersion": "2.1.0",
            "numStartups": 5, "autoUpdates": False, "theme": "dark",
            "projects": {p: {"hasTrustDialogAccepted": True, "allowedTools": []}
                         for p in args.trust}}
    if not args.no_profile:
        conf["oauthAccount"] = {
            "accountUuid": acc["account_uuid"], "emailAddress": acc["email"],
            "organizationUuid": acc["org_uuid"], "organizationName": acc["org_name"],
            "displayName": acc["name"], "organizationRole": "admin", "workspaceRole": None,
            "organizationType": "claude_" + acc["claude_plan"],
            "organizationRateLimitTier": "default_claude_max_20x",
            "userRateLimitTier": None, "hasExtraUsageEnabled": False,
            "billingType": "stripe_subscription", "profileFetchedAt": int(time.time() * 1000)}
    put(f"{args.dir}/.claude.json", conf)
    return {"CLAUDE_CONFIG_DIR": os.path.abspath(args.dir)}


def codex(args, acc):
    if args.api_key:
        auth = {"auth_mode": "apikey", "OPENAI_API_KEY": f"sk-LAB{args.n:04d}-{'k' * 32}"}
    else:
        last = time.time() - (20 * 86400 if args.stale else 0)
        auth = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": {
            "id_token": codex_id_token(acc, args.expires_in),
            "access_token": codex_access_token(acc, args.expires_in),
            "refresh_token": acc["codex_refresh"],
            "account_id": acc["chatgpt_account_id"]},
            "last_refresh": datetime.fromtimestamp(last, timezone.utc)
            .strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"}
    put(f"{args.dir}/auth.json", auth)
    base = args.base_url.rstrip("/")
    conf = ['# written by the lab\ncli_auth_credentials_store = "file"\ncheck_for_update_on_startup = false\n']
    if base:
        # Direct mode. A provider of our own: the built-in "openai" provider with
        # ChatGPT auth insists on the https origin that accounts/check returns.
        conf.append(f'chatgpt_base_url = "{base}/backend-api/"\nmodel_provider = "lab"\n\n'
                    '[model_providers.lab]\nname = "lab"\nwire_api = "responses"\n'
                    f'base_url = "{base}/backend-api/codex"\n'
                    'requires_openai_auth = true\nsupports_websockets = false\n'
                    'request_max_retries = 1\nstream_max_retries = 1\n')
    conf.append("[analytics]\nenabled = false\n")
    conf.append("[features]\nenable_request_compression = false\n")
    for p in args.trust:
        conf.append(f'[projects."{p}"]\ntrust_level = "trusted"\n')
    put(f"{args.dir}/config.toml", "\n".join(conf))
    return {"CODEX_HOME": os.path.abspath(args.dir)}


def make(argv):
    """Writes the home that these arguments ask for; returns what is printed about it."""
    ap = argparse.ArgumentParser()
    ap.add_argument("provider", choices=["claude", "codex"])
    ap.add_argument("n", type=int)
    ap.add_argument("dir")
    ap.add_argument("--expires-in", type=int, default=30 * 86400)
    ap.add_argument("--base-url", default="", help="codex direct mode: loopback URL of fake_openai.py")
    ap.add_argument("--no-profile", action="store_true", help="claude: no oauthAccount")
    ap.add_argument("--api-key", action="store_true")
    ap.add_argument("--stale", action="store_true", help="codex: force a token refresh")
    ap.add_argument("--scenario", help="who account N is, where the scenario says otherwise")
    ap.add_argument("--trust", action="append", default=[], help="workspace to mark trusted")
    a = ap.parse_args(argv)
    os.makedirs(a.dir, mode=0o700, exist_ok=True)
    os.chmod(a.dir, 0o700)
    acc = Scenario(a.scenario).account(a.n)
    env = claude(a, acc) if a.provider == "claude" else codex(a, acc)
    return {"provider": a.provider, "dir": os.path.abspath(a.dir), "env": env, "account": acc}


if __name__ == "__main__":
    print(json.dumps(make(None)))
