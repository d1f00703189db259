//! A change of a login on disks that are full, read-only, or not the one that holds the state.

use std::process::Stdio;

use crate::support::sandbox::{Ran, Sandbox};
use crate::support::world::POOL;
use crate::transactions::Change;

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-fleet");
const PROMOTER: &str = env!("CARGO_BIN_EXE_fake-promoter");

/// Runs a script of a shell where it may mount what it likes; `None` where nobody may. `$STATE`, `$HOUSE`,
/// `$LOGIN` and `$NEW` are the state root, the provider home, its credential and the login that is to come.
fn mounted(change: &Change, script: &str) -> Option<Ran> {
    let allowed = Sandbox::tool("unshare")
        .args(["-m", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        println!("SKIPPED: no mount namespace can be made here (unshare needs root)");
        return None;
    }
    let world = &change.world;
    let inner = world.sandbox.shell("");
    let mut outer = Sandbox::tool("unshare");
    outer
        .args(["-m", "sh", "-ec"])
        .arg(format!("mount --make-rprivate /\n{script}"))
        .env_clear()
        .envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("STATE", world.sandbox.path("state"))
        .env("HOUSE", change.credential.parent().expect("a home"))
        .env("LOGIN", &change.credential)
        .env("NEW", &change.new)
        .env("PROMOTE", format!("{PROMOTER} scripted one"))
        .current_dir(world.sandbox.path("tmp"))
        .stdin(Stdio::null());
    Some(Ran::of(&mut outer))
}

/// Mounts a small file system with the content of `$1` over it, and fills it to the last byte.
const FILL: &str = r#"
fill() {
    mkdir full && mount -t tmpfs -o size=2m tmpfs full && cp -a "$1/." full
    cat /dev/zero > full/filler 2>/dev/null || true
    mount --bind full "$1"
}
freeze() { mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"; }
"#;

/// Promotes, and says how that ended and what is left of it.
const TELL: &str = r#"
inode=$(stat -c %i "$LOGIN")
code=0
$PROMOTE "$LOGIN" "$NEW" || code=$?
echo "exit $code"
[ "$inode" = "$(stat -c %i "$LOGIN")" ] && echo "same file"
cmp -s "$LOGIN" "$NEW" && echo "new login"
ls -A "$HOUSE" | grep fleet- && echo "litter"
ls -A "$STATE/transactions" 2>/dev/null | grep . && echo "record"
true
"#;

#[test]
fn a_full_or_read_only_disk_refuses_a_change_and_nothing_is_left_of_it() {
    for (setup, code) in [
        (r#"fill "$HOUSE""#, "disk_full"),
        (r#"freeze "$HOUSE""#, "read_only"),
        (r#"freeze "$STATE""#, "read_only"),
        (
            r#"mkdir -p "$STATE/transactions" && fill "$STATE/transactions""#,
            "disk_full",
        ),
        // A credential that somebody mounted alone cannot trade its name.
        (r#"mount --bind "$LOGIN" "$LOGIN""#, "io"),
    ] {
        let change = Change::new();
        let script = format!("{FILL}{setup}{TELL}");
        let Some(ran) = mounted(&change, &script) else {
            return;
        };
        let told = ran.stdout.replace("filler\nrecord\n", "");
        let lines: Vec<&str> = told.lines().collect();
        assert!(
            lines[0].starts_with(&format!("{code}: ")),
            "{setup}: {}{}",
            ran.stdout,
            ran.stderr
        );
        assert_eq!(
            lines[1..],
            ["exit 2", "same file"],
            "{setup}: {}",
            ran.stdout
        );
    }
}

#[test]
fn state_and_homes_may_lie_on_different_disks() {
    let change = Change::new();
    let script = format!(
        r#"{FILL}
for part in "$STATE" "$HOUSE"; do
    mkdir other && mount -t tmpfs tmpfs other && cp -a "$part/." other && mount --move other "$part"
done
{TELL}
{PROGRAM} profile status one > status && grep -o '"auth_status":"[a-z_]*"' status"#
    );
    let script = script.replace("mkdir other &&", "mkdir -p other &&");
    let Some(ran) = mounted(&change, &script) else {
        return;
    };
    let wanted = "Done { kept: None }\nexit 0\nnew login\n\"auth_status\":\"logged_in\"\n";
    assert_eq!(ran.stdout, wanted, "{}", ran.stderr);
}

#[test]
fn what_cannot_be_taken_back_is_named_and_told_and_taken_back_once_it_can() {
    let change = Change::new();
    let id = change.cut();
    let project = change.world.project.to_str().expect("UTF-8");
    let choose = format!(
        "{PROGRAM} lease choose --task t --pool {POOL} --workspace '{project}' 2>&1 || echo \"exit $?\""
    );
    let script = format!(
        r#"{FILL}
freeze "$HOUSE"
{choose}
{PROGRAM} profile status one
{PROGRAM} transaction recover {id} || echo "exit $?"
umount "$HOUSE"
{choose}"#
    );
    let Some(ran) = mounted(&change, &script) else {
        return;
    };
    let said: Vec<&str> = ran.stdout.lines().collect();
    let [fenced, exit, status, stuck, again, chosen] = said[..] else {
        panic!("{}{}", ran.stdout, ran.stderr);
    };
    assert_eq!((exit, again), ("exit 2", "exit 2"));
    let recover = format!("agent-fleet transaction recover {id}");
    for what in ["transaction_pending", "Read-only", &id, &recover] {
        assert!(fenced.contains(what), "no {what} in {fenced}");
    }
    assert!(status.contains("\"id\":\"one\""), "{status}");
    assert!(
        ran.stderr.contains("note: ") && ran.stderr.contains(&recover),
        "{}",
        ran.stderr
    );
    assert!(stuck.contains("agent-fleet doctor"), "{stuck}");
    assert!(chosen.contains("\"profile\":\"one\""), "{chosen}");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}
