//! Files and disks: full, read-only, changed by many at once.

use std::process::Stdio;

use agent_fleet::store::lock::{Mode, try_flock};

use crate::support::checkout::{Checkout, step};
use crate::support::mounts;
use crate::support::ran::Ran;
use crate::support::world::{POOL, World};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-fleet");

/// Runs a script where it may mount what it likes, as [`mounts::mounted`] says.
fn mounted(world: &World, script: &str) -> Option<Ran> {
    let status = world.command(&["profile", "status", "one"]);
    let house = status["home"].as_str().expect("a home");
    mounts::mounted(world, house.as_ref(), script)
}

#[test]
fn a_full_disk_refuses_a_change_leaves_every_file_whole_and_can_be_looked_at() {
    let world = World::with(1);
    assert_eq!(world.exec("t", "say hi").status, 0);
    // A last line of the audit may still fit beside others. Each root on a disk of its own that has not a byte left; what each command says, and whether anything changed.
    let script = r#"
for part in config state; do
    mkdir full && mount -t tmpfs -o size=2m tmpfs full && cp -a "$ROOT/$part/." full
    cat /dev/zero > full/filler 2>/dev/null || true
    mount --move full "$ROOT/$part" && rmdir full
done
tree() { find "$ROOT/config" "$ROOT/state" -type f ! -name filler ! -name '*.lock' ! -name audit.jsonl -exec md5sum {} + | sort; }
tree > before
for change in \
    "config set settings.lease_ttl_seconds 45" \
    "profile disable one" \
    "profile drain one --reason x" \
    "lease choose --task u --pool crew --workspace $PROJECT"
do
    code=0
    $PROGRAM $change > answer 2> said || code=$?
    echo "$code $(grep -o '"code":"[a-z_]*"' answer)"
done
tree > after
diff before after && echo "same files"
for look in status "lease list" "profile list" "config list" "session list" "audit"; do
    $PROGRAM $look > answer 2> said || echo "$look: $(cat answer said)"
done
echo looked"#;
    let Some(ran) = mounted(&world, script) else {
        return;
    };
    let full = "2 \"code\":\"disk_full\"\n".repeat(4);
    assert_eq!(
        ran.stdout,
        format!("{full}same files\nlooked\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_full_disk_starts_no_worker_of_a_fleet_and_with_room_again_its_run_goes_on() {
    let checkout = Checkout::with(1);
    let text = "spawn echo turn >> a.txt\nsay Status: needs-verification";
    checkout.write("plan.toml", &step("one", "files = [\"a.txt\"]", text));
    checkout.fleet(&["init", "r", "--accept", "program"]);
    checkout.fleet(&["plan", "--file", "plan.toml"]);
    let script = r#"
fleet() { (cd "$PROJECT" && $PROGRAM fleet "$@"); }
mkdir full && mount -t tmpfs -o size=4m tmpfs full && cp -a "$ROOT/state/." full
cat /dev/zero > full/filler 2>/dev/null || true
mount --move full "$ROOT/state" && rmdir full
code=0
fleet launch one > answer 2> said || code=$?
echo "$code $(grep -o '"code":"[a-z_]*"' answer)"
fleet status > answer 2> said || cat answer said
grep -o '"active":[0-9]*' answer
cat "$PROJECT/a.txt"
rm "$ROOT/state/filler"
fleet run --run r > answer 2> said || cat answer said
cat "$PROJECT/a.txt""#;
    let Some(ran) = mounted(&checkout.world, script) else {
        return;
    };
    assert_eq!(
        ran.stdout, "2 \"code\":\"disk_full\"\n\"active\":0\nas it was\nas it was\nturn\n",
        "{}",
        ran.stderr
    );
}

#[test]
fn a_home_on_a_read_only_disk_takes_no_worker_and_can_be_looked_at() {
    let world = World::with(1);
    let script = format!(
        r#"
mount --bind "$HOUSE" "$HOUSE" && mount -o remount,bind,ro "$HOUSE"
code=0
$PROGRAM exec --task t --pool {POOL} --workspace "$PROJECT" -- -p 'say hi' > answer || code=$?
echo "$code $(grep -o '"code":"[a-z_]*"' answer) $(grep -c "$HOUSE" answer)"
for look in status "profile status one" "lease list" "quota show one"; do
    $PROGRAM $look > answer 2> said || echo "$look: $(cat answer said)"
done
echo looked"#
    );
    let Some(ran) = mounted(&world, &script) else {
        return;
    };
    assert_eq!(
        ran.stdout, "2 \"code\":\"read_only\" 1\nlooked\n",
        "{}",
        ran.stderr
    );
    assert_eq!(world.requests("turn"), [""; 0]);
    assert_eq!(world.exec("t", "say hi").status, 0);
}

#[test]
fn many_changes_of_the_registry_at_once_leave_it_whole_and_lose_none() {
    let mut world = World::with(1);
    world.sandbox.set("PROGRAM", PROGRAM);
    // A change waits for the one that is under way.
    let lock = world.sandbox.path("state/locks/registry.lock");
    let lock = std::fs::File::open(lock).expect("a lock");
    assert!(
        try_flock(&lock, Mode::Exclusive).expect("a lock"),
        "held already"
    );
    let change = ["config", "set", "settings.lease_ttl_seconds", "45"];
    drop(world.sandbox.run(change).refused("lock_timeout"));
    drop(lock);
    let names: Vec<String> = (0..24).map(|number| format!("p{number:02}")).collect();
    // Who meets another in the middle is refused and types it again.
    let add = |name: &String| {
        let line = format!(
            "for again in $(seq 100); do \"$PROGRAM\" profile add {name} --provider scripted --pool {POOL} && exit; done; exit 1"
        );
        world
            .sandbox
            .shell(&line)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts")
    };
    let children: Vec<_> = names.iter().map(add).collect();
    for mut child in children {
        assert!(child.wait().expect("a child").success());
    }
    let list = world.command(&["profile", "list"]);
    let found = list["profiles"].as_array().expect("a list").len();
    assert_eq!(found, 1 + names.len());
}
