//! What a finished turn showed of its account's quota is known to the broker, without a request of its own.

use crate::support::checkout::{Checkout, step};

#[test]
fn the_windows_that_a_turn_showed_are_known_without_asking_the_provider() {
    let checkout = Checkout::with(1);
    let script = "usage 40\nspawn true\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", "kind = \"investigate\"", script));
    checkout.fleet(&["run", "plan.toml", "--run", "r"]);
    let asked = checkout.world.requests("usage").len();
    let shown = checkout.world.command(&["quota", "show", "one"]);
    let row = &shown["quota"][0];
    assert_eq!(
        (&row["headroom_percent"], &row["source"]),
        (&60.0.into(), &"rollout".into()),
        "{row}"
    );
    assert_eq!(row["status"], "fresh", "{row}");
    assert_eq!(row["windows"].as_array().map(Vec::len), Some(2), "{row}");
    assert_eq!(
        checkout.world.requests("usage").len(),
        asked,
        "it was asked"
    );
}
