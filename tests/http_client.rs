//! What the built-in readers' client does on the wire, seen from its other end.

use serde_json::json;

use crate::support::https::{Answer, CA};
use crate::support::online::{CLAUDE_USAGE, CODEX_USAGE, Online, PROFILE, slow, truth};

/// What a failed measurement looks like: nothing known, this reason, and no word of the token anywhere.
#[track_caller]
fn unmeasured(world: &Online, id: &str, reason: &str) {
    let ran = world.run(&format!("quota show {id} -v"));
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let row = ran.success()["quota"][0].clone();
    assert_eq!(
        (&row["status"], &row["reported_status"]),
        (&json!("unmeasured"), &json!(reason)),
        "{row}"
    );
    assert!(!said.contains("access-"), "{said}");
}

#[test]
fn requests_go_through_the_named_proxy_and_trust_its_ca_by_each_variable() {
    for (id, variable) in [
        ("claude-1", "SSL_CERT_FILE"),
        ("claude-2", "NODE_EXTRA_CA_CERTS"),
        ("codex-3", "CODEX_CA_CERTIFICATE"),
    ] {
        let mut world = Online::new(&[id]);
        world.sandbox.set("SSL_CERT_FILE", "");
        unmeasured(&world, id, "unavailable");
        assert_eq!(
            world.https.asked(),
            [],
            "a server that is not trusted was shown the token"
        );
        world.sandbox.set(variable, CA);
        world.later(60);
        assert_eq!(world.show(id)["status"], "fresh", "{variable}");
        let asked = world.https.asked();
        let token = format!("synthetic-access-{}-first", &id[id.len() - 1..]);
        assert!(asked.iter().all(|asked| asked.token == token), "{asked:?}");
    }
}

#[test]
fn lower_case_names_the_proxy_too_and_one_that_refuses_is_no_way_around() {
    let mut world = Online::new(&["codex-1"]);
    let proxy = world.https.url();
    world.sandbox.set("https_proxy", "http://127.0.0.1:1");
    unmeasured(&world, "codex-1", "unavailable");
    assert!(world.https.connected().is_empty());
    world.sandbox.set("HTTPS_PROXY", "");
    world.sandbox.set("https_proxy", proxy);
    world.later(60);
    assert_eq!(world.show("codex-1")["status"], "fresh");
}

#[test]
fn a_redirect_is_not_followed_and_the_token_reaches_no_other_host() {
    for status in [301, 302, 307, 308] {
        let world = Online::new(&["codex-1"]);
        world.https.respond(move |_| {
            Answer::status(status).header("location", "https://elsewhere.invalid/usage")
        });
        unmeasured(&world, "codex-1", "unavailable");
        assert_eq!(world.https.connected(), ["chatgpt.com"], "{status}");
    }
}

#[test]
fn an_answer_without_end_or_sense_is_none_and_quotes_nothing() {
    let world = Online::new(&["claude-1", "claude-2", "codex-1"]);
    world.https.respond(|_| Answer {
        body: vec![b' '; 3 << 20],
        ..Answer::status(200)
    });
    unmeasured(&world, "claude-1", "unavailable");
    world.https.respond(|asked| Answer {
        body: format!("<html>{}</html>", asked.token).into_bytes(),
        ..Answer::status(200)
    });
    unmeasured(&world, "claude-2", "unknown_shape");
    unmeasured(&world, "codex-1", "unknown_shape");
}

#[test]
fn a_server_that_takes_its_time_is_not_waited_for_longer_than_a_command_may_take() {
    let world = Online::new(&["claude-1"]);
    world.https.respond(slow(60_000));
    let began = std::time::Instant::now();
    unmeasured(&world, "claude-1", "unavailable");
    let took = began.elapsed();
    assert!(took.as_secs() < 30, "{took:?}");
    assert_eq!(world.https.take_paths(), [PROFILE]);
    // Its back-off was written down.
    unmeasured(&world, "claude-1", "unavailable");
    assert_eq!(world.https.take_paths(), [""; 0]);
}

#[test]
fn a_token_that_no_header_can_carry_is_an_error_without_the_token() {
    let world = Online::new(&["codex-1"]);
    world.log_in("codex-1", "a\nb");
    unmeasured(&world, "codex-1", "unavailable");
    assert_eq!(world.https.asked(), []);
}

#[test]
fn each_provider_is_asked_what_it_answers_and_nothing_else() {
    let world = Online::new(&["claude-1", "codex-2"]);
    world.https.respond(truth);
    world.run("quota show").success();
    assert_eq!(
        world.https.take_paths(),
        [PROFILE, CLAUDE_USAGE, CODEX_USAGE]
    );
    let mut hosts = world.https.connected();
    hosts.sort();
    hosts.dedup();
    assert_eq!(hosts, ["api.anthropic.com", "chatgpt.com"]);
}
