//! `profile enroll` on disks that are full, read-only, or not the one that holds the state.

use crate::support::change::Change;
use crate::support::mounts;
use crate::support::ran::Ran;
use crate::support::world::POOL;

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-fleet");

/// Runs a script where it may mount what it likes, as [`mounts::mounted`] says; `$LOGIN` is the credential.
fn mounted(change: &Change, script: &str) -> Option<Ran> {
    let house = change.credential.parent().expect("a home");
    let login = format!("LOGIN='{}'\n{script}", change.credential.display());
    mounts::mounted(&change.world, house, &login)
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

/// Logs in, and says how that ended and what is left of it. Files of homes are compared with inode and time.
const TELL: &str = r#"
tree() {
    find "$SHARE" -type f ! -name filler -printf '%p %i %m %s %T@\n'
    find "$SHARE" "$STATE" ! -name filler
}
old=$(cat "$LOGIN")
tree | sort > before
code=0
echo one | $PROGRAM profile enroll one > answer 2> said || code=$?
grep -o '"code":"[a-z_]*"' answer || true
echo "exit $code"
[ "$(cat "$LOGIN")" = "$old" ] || echo "new login"
tree | sort > after
diff before after > changed && echo "same trees" || true
"#;

#[test]
fn a_full_or_read_only_disk_refuses_a_login_and_nothing_is_left_of_it() {
    for (setup, code, asked) in [
        (r#"fill "$HOUSE""#, "disk_full", true),
        (r#"freeze "$HOUSE""#, "read_only", false),
        (r#"freeze "$STATE""#, "read_only", false),
        (r#"fill "$STATE""#, "disk_full", false),
        (r#"fill "$STATE/staging""#, "disk_full", false),
        (r#"fill "$STATE/transactions""#, "disk_full", true),
        // A credential that somebody mounted alone cannot trade its name.
        (r#"mount --bind "$LOGIN" "$LOGIN""#, "io", true),
    ] {
        let change = Change::new();
        // What the first login makes for all that come is there.
        for folder in ["staging", "transactions"] {
            let keep = format!("state/{folder}/.keep");
            change.world.sandbox.write(keep, "");
        }
        let script = format!("{FILL}{setup}{TELL}grep -c 'which account' said");
        let Some(ran) = mounted(&change, &script) else {
            return;
        };
        let asked = if asked { "1" } else { "0" };
        let wanted = format!("\"code\":\"{code}\"\nexit 2\nsame trees\n{asked}\n");
        let changed = std::fs::read_to_string(change.world.sandbox.path("tmp/changed"));
        assert_eq!(ran.stdout, wanted, "{setup}: {}{changed:?}", ran.stderr);
    }
}

#[test]
fn state_and_homes_may_lie_on_different_disks() {
    let change = Change::new();
    let script = format!(
        r#"{FILL}
for part in "$STATE" "$HOUSE"; do
    mkdir -p other && mount -t tmpfs tmpfs other && cp -a "$part/." other && mount --move other "$part"
done
{TELL}
find "$HOUSE" "$STATE" | grep -E '[.]fleet-|/(staging|transactions)/.' && echo litter
$PROGRAM profile status one > status && grep -o '"auth_status":"[a-z_]*"' status"#
    );
    let Some(ran) = mounted(&change, &script) else {
        return;
    };
    let wanted = "exit 0\nnew login\n\"auth_status\":\"logged_in\"\n";
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
