//! Each check of the machine and of a provider comes out well, and can fail by itself.

use super::{BinaryFacts, MACHINE, MachineFacts, PROVIDER, Program, ProviderFacts};
use crate::contract::doctor::Level::{self, Fail, Ok as Good, Warn};
use crate::contract::lease::DamagedLease;
use crate::contract::transaction::{Transaction, TransactionState};
use crate::error::{Error, code};
use crate::id::ProviderKind;
use crate::identity::conflict::AnchorIdentity;

fn machine() -> MachineFacts {
    MachineFacts {
        config: "/c/accounts.toml".into(),
        registry: Ok(Vec::new()),
        install: Ok(Some("an-id".to_owned())),
        program: ("/s/bin/agent-fleet".into(), Program::Ours),
        processes: true,
        leases: Ok((Vec::new(), Vec::new())),
        transactions: Ok(vec![begun(TransactionState::SetAside)]),
        projects: Vec::new(),
        variables: Vec::new(),
        litter: Vec::new(),
    }
}

fn provider() -> ProviderFacts {
    ProviderFacts {
        kind: ProviderKind::Codex,
        needed: true,
        binary: Ok(BinaryFacts {
            path: "/bin/codex".into(),
            version: Some("0.171.0".to_owned()),
            age: Some(60),
            hooks_of_another: false,
        }),
        base: AnchorIdentity::Nobody,
        renew_base: "codex login --device-auth".to_owned(),
        desktop: AnchorIdentity::Nobody,
        snapshot: None,
    }
}

fn error() -> Error {
    Error::new(code::IO, "it cannot be read").hint("ls -l /x")
}

fn damaged() -> DamagedLease {
    DamagedLease {
        record: 3,
        profile: None,
        task: None,
        path: "/s/leases/table".into(),
        settle: "agent-fleet lease release --record 3 --force".to_owned(),
    }
}

fn begun(state: TransactionState) -> Transaction {
    Transaction {
        id: "codex-one-1-1".to_owned(),
        state,
        provider: Some(ProviderKind::Codex),
        profile: None,
        path: "/s/transactions/codex-one-1-1.json".into(),
        credential: None,
        in_force: None,
        at: None,
        beside: Vec::new(),
        next: format!("settle {state:?}"),
    }
}

type OfMachine = (&'static str, Level, fn(&mut MachineFacts), &'static str);
type OfProvider = (&'static str, Level, fn(&mut ProviderFacts), &'static str);

/// Check, how it comes out, what was changed, and the command that is offered.
const MACHINES: &[OfMachine] = &[
    ("registry", Fail, |f| f.registry = Err(error()), "ls -l /x"),
    (
        "registry",
        Warn,
        |f| f.registry = Ok(vec!["3:1: `x` has no effect".to_owned()]),
        "${EDITOR:-vi} /c/accounts.toml",
    ),
    (
        "transactions",
        Fail,
        |f| f.transactions = Err(error()),
        "ls -l /x",
    ),
    (
        "transactions",
        Warn,
        |f| f.transactions = Ok(vec![begun(TransactionState::Pending)]),
        "settle Pending",
    ),
    (
        "transactions",
        Fail,
        |f| {
            f.transactions = Ok(vec![
                begun(TransactionState::Pending),
                begun(TransactionState::Damaged),
            ]);
        },
        "settle Damaged",
    ),
    ("install", Fail, |f| f.install = Err(error()), "ls -l /x"),
    (
        "program",
        Warn,
        |f| f.program.1 = Program::Other("/old".into()),
        "agent-fleet doctor --fix",
    ),
    (
        "program",
        Fail,
        |f| f.program.1 = Program::Nowhere,
        "agent-fleet doctor --fix",
    ),
    (
        "processes",
        Fail,
        |f| f.processes = false,
        "ls -ld /proc/self",
    ),
    ("lease_table", Fail, |f| f.leases = Err(error()), "ls -l /x"),
    (
        "lease_table",
        Fail,
        |f| f.leases = Ok((vec![damaged()], Vec::new())),
        "agent-fleet lease release --record 3 --force",
    ),
    (
        "lease_table",
        Warn,
        |f| f.leases = Ok((Vec::new(), vec!["gone".parse().unwrap()])),
        "agent-fleet lease list",
    ),
    (
        "projects",
        Warn,
        |f| f.projects = vec!["/it's gone".into()],
        "agent-fleet project remove '/it'\\''s gone'",
    ),
    (
        "environment",
        Warn,
        |f| f.variables = vec![("ANTHROPIC_API_KEY".into(), "bills it".into())],
        "unset ANTHROPIC_API_KEY",
    ),
    (
        "litter",
        Warn,
        |f| f.litter = vec![("/s/.tmp-a".into(), 7200)],
        "agent-fleet doctor --fix",
    ),
];

const PROVIDERS: &[OfProvider] = &[
    ("binary", Fail, |f| f.binary = Err(error()), "ls -l /x"),
    (
        "binary",
        Warn,
        |f| {
            f.binary = Err(error());
            f.needed = false;
        },
        "ls -l /x",
    ),
    (
        "binary",
        Warn,
        |f| f.binary.as_mut().unwrap().hooks_of_another = true,
        "agent-fleet profile provision --all",
    ),
    (
        "base_login",
        Fail,
        |f| f.base = AnchorIdentity::Unverified("no_login"),
        "agent-fleet config set providers.codex.base_home false",
    ),
    (
        "base_login",
        Fail,
        |f| f.base = AnchorIdentity::Unverified("token_expired"),
        "codex login --device-auth",
    ),
    (
        "base_login",
        Fail,
        |f| f.base = AnchorIdentity::Unverified("unproven"),
        "agent-fleet profile verify --all",
    ),
    (
        "desktop_login",
        Fail,
        |f| f.desktop = AnchorIdentity::Unverified("missing"),
        "agent-fleet config set providers.codex.desktop_identity_file false",
    ),
    ("snapshot", Fail, |f| f.snapshot = Some(error()), "ls -l /x"),
];

#[test]
fn each_check_of_the_machine_can_fail_by_itself() {
    let bad = |facts: &MachineFacts| -> Vec<_> {
        let all = MACHINE.iter().map(|rule| (rule.id, (rule.decide)(facts)));
        all.filter(|(_, finding)| finding.level != Good).collect()
    };
    assert_eq!(bad(&machine()), [], "all is well");
    for (id, level, change, fix) in MACHINES {
        let mut facts = machine();
        change(&mut facts);
        let found = bad(&facts);
        assert_eq!(found.len(), 1, "{id}: {found:?}");
        let (which, finding) = &found[0];
        assert_eq!((which, finding.level), (id, *level), "{finding:?}");
        assert_eq!(finding.fix.as_deref(), Some(*fix));
    }
    for rule in MACHINE {
        assert!(
            MACHINES.iter().any(|case| case.0 == rule.id),
            "{} cannot fail",
            rule.id
        );
    }
}

#[test]
fn each_check_of_a_provider_can_fail_by_itself() {
    let bad = |facts: &ProviderFacts| -> Vec<_> {
        let all = PROVIDER.iter().map(|rule| (rule.id, (rule.decide)(facts)));
        all.filter(|(_, finding)| finding.level != Good).collect()
    };
    assert_eq!(bad(&provider()), [], "all is well");
    for (id, level, change, fix) in PROVIDERS {
        let mut facts = provider();
        change(&mut facts);
        let found = bad(&facts);
        assert_eq!(found.len(), 1, "{id}: {found:?}");
        let (which, finding) = &found[0];
        assert_eq!((which, finding.level), (id, *level), "{finding:?}");
        assert_eq!(finding.fix.as_deref(), Some(*fix));
    }
    for rule in PROVIDER {
        assert!(
            PROVIDERS.iter().any(|case| case.0 == rule.id),
            "{} cannot fail",
            rule.id
        );
    }
}
