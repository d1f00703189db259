"""The synthetic accounts: who "account N" is, and every token by which it is known.

All of it is invented. Each token carries LABnnnn, by which the fakes tell who calls.
"""
import base64
import hashlib
import json
import re
import time

THIRTY_DAYS = 30 * 86400


def b64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def make_jwt(claims: dict) -> str:
    """A well-formed three-part JWT whose signature is not one."""
    head = b64url(json.dumps({"alg": "RS256", "typ": "JWT", "kid": "lab"}).encode())
    body = b64url(json.dumps(claims).encode())
    return f"{head}.{body}.{b64url(b'lab-signature-not-real')}"


def jwt_claims(token: str) -> dict:
    """The claims of a JWT, or {} for anything that is not one."""
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def account_of(text: str):
    """N of the first LABnnnn in `text`, or None."""
    found = re.search(r"LAB(\d{4})", text)
    return int(found.group(1)) if found else None


def iso(epoch: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(epoch)) + ".000000+00:00"


def stable_uuid(text: str) -> str:
    h = hashlib.sha256(text.encode()).hexdigest()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-8{h[17:20]}-{h[20:32]}"


def lab_account(n: int) -> dict:
    """The one definition of "account N"; make_home.py and the fakes share it."""
    return {
        "n": n,
        "email": f"acct{n}@lab.invalid",
        "name": f"Lab Account {n}",
        # Claude
        "account_uuid": stable_uuid(f"claude-account-{n}"),
        "org_uuid": stable_uuid(f"claude-org-{n}"),
        "org_name": f"Lab Org {n}",
        "claude_access": f"sk-ant-oat01-LAB{n:04d}-{'a' * 64}-AA",
        "claude_setup": f"sk-ant-oat01-LAB{n:04d}-setup-{'s' * 56}-AA",
        "claude_refresh": f"sk-ant-ort01-LAB{n:04d}-{'r' * 64}-AA",
        "claude_plan": "max",
        # Codex / ChatGPT
        "chatgpt_account_id": stable_uuid(f"chatgpt-account-{n}"),
        "chatgpt_user_id": f"user-LAB{n:04d}",
        "chatgpt_plan": "pro",
        "codex_refresh": f"rt_LAB{n:04d}_synthetic",
    }


def codex_claims(acc: dict, ttl: int, audience: str) -> dict:
    now = int(time.time())
    return {
        "iss": "https://auth.openai.com", "aud": [audience],
        "sub": f"auth0|{acc['chatgpt_user_id']}", "iat": now, "exp": now + ttl,
        "https://api.openai.com/profile": {"email": acc["email"], "email_verified": True},
        # By which the fakes tell who calls, whatever the ids of the account are.
        "lab": f"LAB{acc['n']:04d}",
        "https://api.openai.com/auth": {
            "chatgpt_account_id": acc["chatgpt_account_id"],
            "chatgpt_plan_type": acc["chatgpt_plan"],
            "chatgpt_user_id": acc["chatgpt_user_id"],
            "user_id": acc["chatgpt_user_id"],
        },
    }


def codex_id_token(acc: dict, ttl: int = THIRTY_DAYS) -> str:
    claims = codex_claims(acc, ttl, "app_EMoamEEZ73f0CkXaXp7hrann")
    claims.update(email=acc["email"], email_verified=True)
    claims["https://api.openai.com/auth"]["organizations"] = [
        {"id": "org-LAB", "is_default": True, "role": "owner", "title": acc["name"]}]
    return make_jwt(claims)


def codex_access_token(acc: dict, ttl: int = THIRTY_DAYS) -> str:
    return make_jwt(codex_claims(acc, ttl, "https://api.openai.com/v1"))
