//! What people do beside all the work: they drain, rest and disable profiles, look, measure, edit the registry and log in.

use std::time::Duration;

use agent_fleet::clock::Clock;
use agent_fleet::store::lock::Mode;

use crate::actor::{Actor, boot};
use crate::sandbox::Sandbox;
use crate::truth::PROFILES;

/// The profiles that are drained, rested and disabled.
const GATED: [&str; 3] = ["four", "five", "six"];

impl Actor {
    /// Keeps a profile from new work for a while, between two grants on another profile: whatever is granted on it in
    /// between was granted while it was closed.
    pub(crate) fn gate(&mut self) {
        let profile = GATED[self.dice.pick(GATED.len())];
        let Some(_latch) = self
            .truth
            .latch(&format!("gate-{profile}"), Mode::Exclusive)
        else {
            return;
        };
        let (close, open): (&[&str], &[&str]) = match self.dice.below(8) {
            0..=3 => (
                &["profile", "drain", profile, "--reason", "chaos"],
                &["profile", "undrain", profile],
            ),
            4..=6 => (
                &["profile", "cooldown", profile, "--for", "1h"],
                &["profile", "cooldown-clear", profile],
            ),
            _ => (
                &["profile", "disable", profile],
                &["profile", "enable", profile],
            ),
        };
        // A cooldown ends when the clock says so.
        let steady = self.truth.latch("steady", Mode::Shared);
        if close[1] == "cooldown" && steady.is_none() {
            return;
        }
        let _steady = steady.filter(|_| close[1] == "cooldown");
        let begun = boot();
        let closed = self.command(close[1], close);
        if closed.code.is_empty() {
            let from = self.marker();
            Clock::real().pause(Duration::from_millis(self.dice.below(30)));
            let to = self.marker();
            if let (Some(from), Some(to)) = (from, to) {
                self.notes
                    .say(&format!("closed {profile} {} {from} {to}", close[1]));
            }
        } else if ["maintenance_busy", "lock_timeout"].contains(&closed.code.as_str()) {
            let took = boot() - begun;
            self.notes.say(&format!("kept-out {} {took}", close[1]));
        }
        self.command(open[1], open);
    }

    /// The number of a grant that is made now.
    fn marker(&mut self) -> Option<u64> {
        let task = format!("mark-{}-{}", std::process::id(), self.dice.below(1 << 40));
        let (_, generation) = self.reserve(&task, "mark")?;
        self.release(&task);
        Some(generation)
    }

    pub(crate) fn look(&mut self) {
        let project = self.project.clone();
        let mut dry = vec!["choose", "--dry-run", "--explain", "--pool", "crew"];
        dry.extend(["--task", "t0", "--workspace", &project]);
        match self.dice.below(6) {
            0 => self.command("status", &["status"]),
            1 => self.command("list", &["lease", "list"]),
            2 => self.command("pool", &["pool", "status", "--pool", "crew"]),
            3 => self.command("session", &["session", "list"]),
            4 => self.command("transaction", &["transaction", "list"]),
            _ => self.command("dry-run", &dry),
        };
    }

    pub(crate) fn refresh(&mut self) {
        let profile = PROFILES[self.dice.pick(PROFILES.len())];
        match self.dice.below(4) {
            0 => self.command("verify", &["profile", "verify", profile]),
            1 => self.command("quota", &["quota", "show", profile]),
            _ => self.command("refresh", &["quota", "refresh", profile]),
        };
    }

    pub(crate) fn configure(&mut self) {
        let value = (6 + self.dice.below(4)).to_string();
        if self.dice.one_in(2) {
            let line = ["config", "set", "settings.active_lease_penalty", &value];
            self.command("config", &line);
        } else {
            let line = ["profile", "policy", "one", "--weight", &value];
            self.command("policy", &line);
        }
    }

    /// A person logs in again to the account of a profile, beside all the work.
    pub(crate) fn enroll(&mut self) {
        let Some(_latch) = self.truth.latch("login", Mode::Exclusive) else {
            return;
        };
        // A month in the middle of it would be longer than what it is given lasts.
        let Some(_steady) = self.truth.latch("steady", Mode::Shared) else {
            return;
        };
        let mut command = Sandbox::tool(&self.program);
        command
            .args(["profile", "enroll", "seven", "--beside-live"])
            .env_clear()
            .envs(self.variables.iter())
            .current_dir(&self.project);
        let killed = self.dice.one_in(2);
        let span = Duration::from_millis(self.dice.below(400));
        let Some((code, sentence)) = crate::helper::log_in(&mut command, killed.then_some(span))
        else {
            return;
        };
        self.told("enroll", &code, &sentence);
    }
}
