//! How long one choice holds the lock that all others wait for.

use crate::world::{World, tool};

/// Choices that are traced.
const ROUNDS: usize = 15;

/// From taking the `leases` lock to leaving it, in seconds, the median of some choices; `None`, and said, where
/// nothing can be traced. Only calls of `flock` are stopped at, two of them while the lock is held.
pub(crate) fn locked(world: &World) -> Option<f64> {
    if tool("strace").arg("-V").output().is_err() {
        println!("SKIPPED: the time under the lock is not measured, strace is not installed");
        return None;
    }
    let mut samples: Vec<f64> = (0..ROUNDS).map(|_| one(world)).collect();
    samples.sort_by(f64::total_cmp);
    Some(samples[ROUNDS / 2])
}

fn one(world: &World) -> f64 {
    let file = world.path("locks");
    let choose = world.choose();
    let mut strace = tool("strace");
    strace
        .args(["-f", "--seccomp-bpf", "-qq", "-y", "-T", "-ttt"])
        .args(["-e", "trace=flock", "-o"])
        .arg(&file)
        .arg(choose.get_program())
        .args(choose.get_args())
        .current_dir(world.path("home"))
        .env_clear()
        .envs(
            choose
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    let output = strace.output().expect("strace starts");
    assert!(output.status.success(), "a traced choice failed");
    world.release();
    let text = std::fs::read_to_string(&file).expect("strace wrote its record");
    let calls = text.lines().filter(|line| line.contains("/leases.lock>"));
    let mut longest = 0.0_f64;
    let mut taken = None;
    for call in calls {
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok());
        let at = number(call.split_whitespace().nth(1)).expect("a time");
        if call.contains("LOCK_UN") {
            longest = taken
                .take()
                .map_or(longest, |taken: f64| longest.max(at - taken));
        } else if call.contains("= 0 ") {
            let took = call.rsplit_once('<').map(|(_, took)| took);
            let took = number(took.and_then(|took| took.strip_suffix('>')));
            taken = Some(at + took.unwrap_or(0.0));
        }
    }
    longest
}
