//! A limit per minute moves a task once, not its herd from account to account.

use crate::support::waiter::Waiter;
use crate::support::world::{Account, POOL, World};

#[test]
fn a_limit_per_minute_moves_a_task_once_and_then_it_waits_for_the_shorter_pause() {
    let names = ["one", "two", "three"];
    let accounts: Vec<Account> = names.iter().map(|name| Account::new(name)).collect();
    let mut world = World::new(&accounts);
    let served = |world: &World| -> Vec<String> {
        let turns = world.requests("turn");
        turns
            .iter()
            .map(|turn| turn.split(' ').next().unwrap().to_owned())
            .collect()
    };
    for _ in 0..2 {
        assert_eq!(world.exec("herd", "limit rate").status, 1);
    }
    let turns = served(&world);
    assert_eq!(turns.len(), 2);
    assert_ne!(turns[0], turns[1], "it was not moved at all");
    let refusal = world.exec("herd", "say on").refused("cooldown");
    assert!(
        refusal["error"]
            .as_str()
            .unwrap()
            .contains("limit per minute"),
        "{refusal}"
    );
    let at: jiff::Timestamp = refusal["retry_at"].as_str().unwrap().parse().unwrap();
    let pause = at
        .duration_since(agent_fleet::clock::Clock::real().now())
        .as_secs();
    assert!((40..=90).contains(&pause), "{pause} s");
    // Another task is nobody's herd, also while this one waits.
    let file = world.sandbox.write("now", "+0");
    world
        .sandbox
        .set("AGENT_FLEET_TEST_NOW", format!("@{}", file.display()));
    let mut waiter = Waiter::queue_up(&world.sandbox, POOL, "herd", &[]);
    assert_eq!(world.exec("other", "say hi").status, 0);
    let third = served(&world)[2].clone();
    assert!(!turns.contains(&third), "{third} rests");
    assert!(waiter.waits());
    world.sandbox.write("now", "+100");
    waiter.profile();
}
