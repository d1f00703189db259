//! A stand-in for an external quota reader: one account per profile, 80 percent left.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test program outside the house"
)]

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments
        .iter()
        .position(|argument| argument == "--provider")
        .map_or(0, |at| at + 1);
    let provider = arguments.get(at).cloned().unwrap_or_default();
    let profile = std::env::var("AGENT_FLEET_PROFILE").unwrap_or_default();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| age.as_secs());
    println!(
        "{}",
        json!({"providers": [{"provider": provider, "account": {"accountId": format!("{profile}-account")},
            "state": {"status": "fresh", "refreshedAt": now},
            "windows": [{"id": "five_hour", "kind": "session", "percentRemaining": 80}]}]})
    );
}
