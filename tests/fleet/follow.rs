//! `fleet logs`, `attach`, `peek` and `history`: what a worker did, while it does it and afterwards.

use serde_json::{Value, json};

use crate::support::checkout::{Checkout, step};
use crate::support::sandbox::Ran;

fn lines(ran: &Ran) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str(line).expect("a line of JSON");
    ran.stdout.lines().map(line).collect()
}

fn texts(lines: &[Value], what: &str) -> Vec<String> {
    let wanted = lines.iter().filter(|line| line["what"] == what);
    let text = |line: &Value| line["text"].as_str().expect("a text").to_owned();
    wanted.map(text).collect()
}

#[test]
fn following_goes_on_from_one_launch_to_the_next_and_ends_with_the_step() {
    let checkout = Checkout::with(1);
    // Its first process is killed once the test says so; the second is told otherwise.
    let script = "say it begins\nspawn while [ ! -e go ]; do sleep 0.05; done; kill -9 $PPID";
    let goes_on = "Read {{prompt}} and {{handoff}}.\n```script\nsay it goes on\nsay Status: needs-verification\n```\n";
    checkout.write(".fleet/templates/handoff.md", goes_on);
    checkout.write("plan.toml", &step("one", "worktree = true", script));
    let run = checkout.start(&["run", "plan.toml", "--run", "r"]);
    checkout.until("r", "one", "running");
    let followers = [
        checkout.start(&["logs", "one", "--follow"]),
        checkout.start(&["logs", "one", "--follow"]),
    ];
    let attached = checkout.start(&["attach", "one"]);
    let workspace = checkout.world.sandbox.path("share/worktrees");
    let workspace = std::fs::read_dir(workspace)
        .expect("worktrees")
        .map(|entry| entry.expect("an entry").path().join("one"))
        .next()
        .expect("a worktree");
    let go = workspace.join("go");
    checkout.world.sandbox.write(
        go.strip_prefix(checkout.world.sandbox.path(""))
            .expect("inside"),
        "",
    );
    let status = run.ended();
    assert_eq!(status.status, 0, "{}", status.stderr);
    for follower in followers {
        let ran = follower.ended();
        let lines = lines(&ran);
        let numbers: Vec<u64> = lines
            .iter()
            .filter_map(|line| line["launch"].as_u64())
            .collect();
        assert!(numbers.is_sorted(), "{}", ran.stdout);
        assert_eq!(
            (numbers[0], numbers.last()),
            (1, Some(&2)),
            "{}",
            ran.stdout
        );
        assert_eq!(texts(&lines, "began").len(), 2, "{}", ran.stdout);
        assert_eq!(texts(&lines, "ended").len(), 2, "{}", ran.stdout);
        let said = texts(&lines, "line");
        assert!(
            said.contains(&"  Status: needs-verification".to_owned()),
            "{said:?}"
        );
    }
    let attached = lines(&attached.ended());
    assert_eq!(texts(&attached, "ended").len(), 1, "{attached:?}");

    let all = lines(&checkout.run(&["logs", "one"]));
    assert_eq!(texts(&all, "began").len(), 2);
    let second = lines(&checkout.run(&["logs", "one", "--launch", "2"]));
    assert!(second.iter().all(|line| line["launch"] == 2), "{second:?}");
    let none = checkout.run(&["logs", "one", "--launch", "3"]);
    none.refused("not_found");
    checkout.run(&["logs", "nobody"]).refused("not_found");
    let peek = checkout.fleet(&["peek", "one", "--lines", "1"]);
    assert_eq!(peek["lines"], json!(["== turn is complete"]), "{peek}");

    let history = checkout.fleet(&["history"]);
    let rows = history["launches"].as_array().expect("launches");
    let told: Vec<Value> = rows
        .iter()
        .map(|row| json!([row["launch"], row["profile"], row["outcome"], row["signal"]]))
        .collect();
    assert_eq!(
        told,
        [
            json!([1, "one", "done", 9]),
            json!([2, "one", "done", null])
        ]
    );
    let list = checkout.fleet(&["list"]);
    let row = &list["runs"][0];
    assert_eq!(
        [&row["run"], &row["state"], &row["verified"]],
        [&json!("r"), &json!("done"), &json!(1)]
    );
    let all = Ran::of(&mut checkout.world.sandbox.command(["fleet", "list", "--all"])).success();
    assert_eq!(all["runs"], list["runs"]);
}
