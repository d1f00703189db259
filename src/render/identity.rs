//! Accounts on a page: by fingerprint, never by name.

use jiff::Timestamp;

use super::page::{Page, Role, nothing, paint};
use super::{Human, words};
use crate::contract::identity::{
    Anchor, AuthStatus, AuthStatusList, ProfileIdentity, Proof, Verification, VerificationList,
};

impl Human for VerificationList {
    fn page(&self, now: Timestamp) -> Page {
        let rows = self.verified.iter().map(|row| cells(row, now)).collect();
        let columns = ["profile", "account", "state", "proved", "by"];
        Page::new().table(&columns, rows, "no profiles")
    }
}

fn cells(row: &Verification, now: Timestamp) -> Vec<String> {
    vec![
        paint(Role::Literal, row.profile.as_str()),
        row.identity_fingerprint
            .as_deref()
            .map_or_else(nothing, words::fingerprint),
        state(row.verified, &row.reason),
        row.verified_at
            .map_or_else(nothing, |at| words::ago(now, at)),
        row.identity_source.clone().unwrap_or_else(nothing),
    ]
}

fn state(verified: bool, reason: &str) -> String {
    let role = if verified { Role::Good } else { Role::Bad };
    paint(role, &words::plain(reason))
}

impl Human for ProfileIdentity {
    fn page(&self, now: Timestamp) -> Page {
        let mut lines = vec![
            ("profile", paint(Role::Literal, self.profile.as_str())),
            ("provider", self.provider.to_string()),
            ("state", state(self.verified, &self.reason)),
        ];
        lines.push((
            "account",
            self.pinned.as_ref().map_or_else(nothing, |pinned| {
                let account = account(&pinned.fingerprint, &pinned.components);
                let at = words::ago(now, pinned.at);
                format!("{account}, pinned {at} by {}", words::plain(&pinned.source))
            }),
        ));
        let proof = self.proof.as_ref();
        lines.push((
            "proof",
            proof.map_or_else(nothing, |told| proved(told, now)),
        ));
        if let Some(quarantine) = &self.quarantine {
            let reason = paint(Role::Bad, &words::plain(&quarantine.reason));
            let since = words::ago(now, quarantine.at);
            lines.push(("quarantine", format!("{reason}, {since}")));
        }
        if let Some(conflict) = &self.conflict {
            let code = paint(Role::Bad, &words::plain(&conflict.code));
            let with = words::plain(&conflict.with.join(", "));
            lines.push(("conflict", format!("{code}, with {with}")));
        }
        lines.push(("base login", anchor(&self.base)));
        lines.push(("Desktop", anchor(&self.desktop)));
        let page = Page::new().fields(&lines);
        match &self.hint {
            Some(hint) => page.next(hint),
            None => page,
        }
    }
}

fn account(fingerprint: &str, components: &[String]) -> String {
    let known = components.join(" and ");
    format!("{} (by {known})", words::fingerprint(fingerprint))
}

fn proved(proof: &Proof, now: Timestamp) -> String {
    let bound = if proof.holds {
        paint(Role::Good, "holds for the login that is there")
    } else {
        paint(Role::Warning, "was made for another login")
    };
    let at = words::ago(now, proof.at);
    format!("{at} by {}, {bound}", words::plain(&proof.source))
}

fn anchor(anchor: &Anchor) -> String {
    let text = match (&anchor.fingerprint, &anchor.reason) {
        (Some(fingerprint), _) => account(fingerprint, &anchor.components),
        (None, Some(reason)) => format!(
            "{}: {}",
            paint(Role::Bad, &words::plain(&anchor.state)),
            words::plain(reason)
        ),
        (None, None) => paint(Role::Faint, &words::plain(&anchor.state)),
    };
    match &anchor.path {
        Some(path) => format!("{text}, {}", words::plain(path.as_str())),
        None => text,
    }
}

impl Human for AuthStatus {
    fn page(&self, now: Timestamp) -> Page {
        let mut lines = vec![
            ("profile", paint(Role::Literal, self.profile.as_str())),
            ("provider", self.provider.to_string()),
            ("login", login(self)),
            ("credential", words::plain(self.credential_file.as_str())),
            ("access token", ends(self.access_expires_at, now)),
            ("whole login", ends(self.login_expires_at, now)),
        ];
        for found in self.auth_overrides.iter().filter(|found| found.refuses) {
            lines.push((
                "replaced by",
                paint(Role::Bad, &words::plain(&found.source)),
            ));
        }
        let page = Page::new().fields(&lines);
        match &self.hint {
            Some(hint) => page.next(hint),
            None => page,
        }
    }
}

impl Human for AuthStatusList {
    fn page(&self, now: Timestamp) -> Page {
        let rows = self
            .profiles
            .iter()
            .map(|row| {
                let replaced = row.auth_overrides.iter().find(|found| found.refuses);
                vec![
                    paint(Role::Literal, row.profile.as_str()),
                    login(row),
                    ends(row.access_expires_at, now),
                    ends(row.login_expires_at, now),
                    replaced.map_or_else(nothing, |found| {
                        paint(Role::Bad, &words::plain(&found.source))
                    }),
                ]
            })
            .collect();
        let columns = [
            "profile",
            "login",
            "access token",
            "whole login",
            "replaced by",
        ];
        let page = Page::new().table(&columns, rows, "no profiles");
        self.profiles
            .iter()
            .filter_map(|row| row.hint.as_deref())
            .fold(page, Page::next)
    }
}

fn login(row: &AuthStatus) -> String {
    let role = match row.auth_status.as_str() {
        "logged_in" | "refreshable" => Role::Good,
        "logged_out" | "expired" => Role::Bad,
        _ => Role::Warning,
    };
    let word = paint(role, &row.auth_status.replace('_', " "));
    match &row.reason {
        Some(reason) if *reason != row.auth_status => format!("{word} ({})", words::plain(reason)),
        Some(_) | None => word,
    }
}

fn ends(at: Option<Timestamp>, now: Timestamp) -> String {
    match at {
        Some(at) if at <= now => format!("ended {}", words::ago(now, at)),
        Some(at) => format!("ends {}", words::due(now, at)),
        None => nothing(),
    }
}
