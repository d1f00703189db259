"""The scenario: what each account's quota is and what the model says next (format: README.md)."""
import json
import os
import re
import sys
import threading

from lab_accounts import lab_account


class Scenario:
    """One fake's view of the scenario. A file is read again when it changes on disk."""

    def __init__(self, path=None):
        self.path, self.stamp, self.lock = path, None, threading.RLock()
        self.data, self.fired = {}, {}
        self.reload()

    def reload(self):
        with self.lock:
            if not self.path:
                return
            try:
                stamp = os.stat(self.path).st_mtime_ns
                if stamp != self.stamp:
                    with open(self.path) as fh:
                        data = json.load(fh)
                    self.data, self.stamp, self.fired = data, stamp, {}
            except FileNotFoundError:
                pass
            except ValueError as err:          # half-written file: keep the old one
                print(f"lab: bad scenario: {err}", file=sys.stderr, flush=True)

    def replace(self, data):
        with self.lock:
            self.data, self.path, self.fired = data, None, {}

    def account(self, n):
        """Account N: the built-in synthetic account with the scenario's overrides."""
        self.reload()
        acc = lab_account(n)
        acc.update(self.data.get("accounts", {}).get(str(n), {}))
        return acc

    def step(self, provider, n, text, tool_results):
        """What the model says next.

        1. a directive inside the prompt:   LAB:{"shell": "touch x"}   (or a list)
        2. the first rule whose provider / account / match (regex) agree
        3. the scenario's default
        `tool_results` (how many tool results followed the last user text) picks the
        element of a list of steps, so the choice needs no state of the conversation.
        """
        self.reload()
        with self.lock:
            steps = directive(text)
            if steps is None:
                steps = self.rule(provider, n, text)
            if steps is None:
                steps = self.data.get("default", {"text": "lab reply"})
            if isinstance(steps, dict):
                steps = [steps, {"text": "done"}] if tool_step(steps) else [steps]
            if not steps:
                return {"text": "lab reply"}
            return steps[min(tool_results, len(steps) - 1)]

    def rule(self, provider, n, text):
        for i, rule in enumerate(self.data.get("rules", [])):
            if rule.get("provider") not in (None, provider) or rule.get("account") not in (None, n):
                continue
            if rule.get("match") and not re.search(rule["match"], text):
                continue
            if "times" in rule:
                if self.fired.get(i, 0) >= rule["times"]:
                    continue
                self.fired[i] = self.fired.get(i, 0) + 1
            return rule.get("steps", rule.get("step", {}))
        return None


def directive(text):
    at = text.rfind("LAB:")
    if at < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text[at + 4:].lstrip())[0]
    except ValueError:
        return None


def tool_step(step):
    return "shell" in step or "write" in step or "tool" in step
