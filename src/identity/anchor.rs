//! The identities that no worker may share: the base CLI login and the Desktop app's.
//!
//! The base login is proved from its own files, read-only, and its proof is bound to its tokens like a
//! profile's; it stands in the snapshot under `@base`. When its token has expired, its last proof holds: the
//! person's own CLI will renew it. The Desktop file is read again at every selection, and again within 50 ms while
//! it is half written: the app works on. An anchor that is
//! configured but missing or unreadable is unverified, and so is a base login whose own files claim another
//! account than the server names; only `false` in the registry takes an anchor out of play.

use camino::Utf8Path;
use serde_json::Value;

use super::conflict::{AnchorIdentity, Anchors};
use super::credential::{self, Seen};
use super::fingerprint::{Account, Key};
use super::proof::is_usable;
use crate::clock::Clock;
use crate::env::Context;
use crate::error::Result;
use crate::id::ProviderKind;
use crate::provider::LoginKind;
use crate::provider::answer::text;
use crate::quota::poll::HINT_DISAGREES;
use crate::registry::install;
use crate::registry::schema::{Anchor, ProviderSettings};
use crate::snapshot::profile::{BASE, Binding, Proof};
use crate::snapshot::provider::Snapshot;
use crate::store::read;

/// Where the anchors of a provider stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Who they are.
    pub anchors: Anchors,
    /// The base login changed, or was never proved: asking the server once would settle it.
    pub renew_base: bool,
}

/// Looks at the anchors of a provider: a stat of the base login, and the Desktop file read.
pub fn look(
    context: &Context,
    settings: &ProviderSettings,
    snapshot: &Snapshot,
) -> Result<Standing> {
    let known = snapshot.states.get(BASE);
    let proof = known.and_then(|state| state.proof.as_ref());
    let (base, renew_base) = match &settings.base_home {
        Anchor::Off => (AnchorIdentity::Nobody, false),
        Anchor::At(home) => {
            let seen = credential::look(settings.kind, home, proof, context.clock);
            let contradicted = known
                .filter(|state| state.poll.reason.as_deref() == Some(HINT_DISAGREES))
                .map(|_| HINT_DISAGREES);
            base(&seen, proof, contradicted, context)
        }
    };
    let desktop = match &settings.desktop_identity_file {
        Anchor::Off => AnchorIdentity::Nobody,
        Anchor::At(path) => match desktop_account(path, context.clock) {
            Ok(account) => {
                let key = install::key(context)?;
                AnchorIdentity::Account(desktop_fingerprint(&key, settings.kind, account))
            }
            Err(reason) => AnchorIdentity::Unverified(reason),
        },
    };
    Ok(Standing {
        anchors: Anchors { base, desktop },
        renew_base,
    })
}

/// Who the base login is, by what its file looks like and its last proof.
/// `contradicted` is why the server's last answer proved nothing.
fn base(
    seen: &Seen,
    proof: Option<&Proof>,
    contradicted: Option<&'static str>,
    context: &Context,
) -> (AnchorIdentity, bool) {
    let last = |reason| {
        proof.map_or(AnchorIdentity::Unverified(reason), |proof| {
            AnchorIdentity::Account(proof.fingerprint.clone())
        })
    };
    let look = match seen {
        Seen::Missing => return (AnchorIdentity::Unverified("no_login"), false),
        Seen::Linked => return (AnchorIdentity::Unverified("credential_link"), false),
        Seen::Unreadable => return (AnchorIdentity::Unverified("credential_unreadable"), false),
        Seen::Unparsable => return (AnchorIdentity::Unverified("credential_unparsable"), false),
        Seen::Unchanged => return (last("unproven"), proof.is_none()),
        Seen::Read(look) => look,
    };
    let holds = proof.is_some_and(
        |proof| matches!(&proof.binding, Binding::Tokens(digest) if *digest == look.login.digest),
    );
    match look.login.kind {
        // Logged out, or paid by key: no subscription account that a worker could share.
        LoginKind::Blank | LoginKind::ApiKey => (AnchorIdentity::Nobody, false),
        LoginKind::Subscription if holds => (last("unproven"), false),
        LoginKind::Subscription if is_usable(&look.login, context.clock.now()) => {
            let reason = contradicted.unwrap_or("unproven");
            (AnchorIdentity::Unverified(reason), true)
        }
        LoginKind::Subscription => (last("token_expired"), false),
    }
}

/// The account that the Desktop file names, or why it names none.
fn desktop_account(path: &Utf8Path, clock: Clock) -> Result<String, &'static str> {
    for attempt in 0..=credential::RETRIES {
        if attempt > 0 {
            clock.pause(credential::PAUSE);
        }
        let bytes = read::optional(path)
            .map_err(|_| "unreadable")?
            .ok_or("missing")?;
        if let Ok(file) = serde_json::from_slice::<Value>(&bytes) {
            return text(&file["lastKnownAccountUuid"]).ok_or("no_account");
        }
    }
    Err("unreadable")
}

fn desktop_fingerprint(
    key: &Key,
    provider: ProviderKind,
    account: String,
) -> super::fingerprint::Fingerprint {
    key.fingerprint(
        provider,
        &Account {
            account: Some(account),
            ..Account::default()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::{Standing, look};
    use crate::clock::Clock;
    use crate::id::ProviderKind::Claude;
    use crate::identity::conflict::AnchorIdentity;
    use crate::provider;
    use crate::registry::schema::{Anchor, BinaryPolicy, ProviderSettings, QuotaReader};
    use crate::snapshot::profile::{BASE, Binding, Proof};
    use crate::snapshot::provider::Snapshot;
    use crate::snapshot::provider::tests::{World, pinned};
    use camino::{Utf8Path, Utf8PathBuf};

    const LOGIN: &str = include_str!("../../fixtures/provider/claude/credentials.json");
    const BLANK: &str = include_str!("../../fixtures/provider/claude/credentials-blank.json");

    fn settings(base_home: Anchor, desktop_identity_file: Anchor) -> ProviderSettings {
        ProviderSettings {
            kind: Claude,
            binary: None,
            binary_policy: BinaryPolicy::Follow,
            base_home,
            desktop_identity_file,
            shared_entries: Vec::new(),
            inherit_settings: Vec::new(),
            quota_reader: QuotaReader::Builtin,
            worker_options: Vec::new(),
            service: None,
        }
    }

    fn root(world: &World) -> Utf8PathBuf {
        Utf8Path::from_path(world.directory.path())
            .unwrap()
            .to_owned()
    }

    fn base_of(world: &World, snapshot: &Snapshot) -> (AnchorIdentity, bool) {
        let settings = settings(Anchor::At(root(world).join("base")), Anchor::Off);
        let Standing {
            anchors,
            renew_base,
        } = look(&world.context, &settings, snapshot).unwrap();
        (anchors.base, renew_base)
    }

    fn proved(digest: &str) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.entry(BASE).proof = Some(Proof {
            fingerprint: pinned("base").fingerprint,
            source: "oauth-profile".to_owned(),
            at: "2026-11-30T08:00:00Z".parse().unwrap(),
            binding: Binding::Tokens(digest.to_owned()),
            file: None,
            digested_at: 0,
        });
        snapshot
    }

    #[test]
    fn the_base_login_is_proved_by_its_tokens_and_an_expired_one_keeps_its_last_proof() {
        let mut world = World::new();
        world.context.clock = Clock::moved("2026-11-30T12:00:00Z");
        let path = root(&world).join("base/.credentials.json");
        let unverified = |reason| (AnchorIdentity::Unverified(reason), false);
        let none = Snapshot::default();
        assert_eq!(base_of(&world, &none), unverified("no_login"));
        world.write(&path, "{");
        assert_eq!(base_of(&world, &none), unverified("credential_unparsable"));
        world.write(&path, BLANK);
        assert_eq!(base_of(&world, &none), (AnchorIdentity::Nobody, false));
        world.write(&path, LOGIN);
        let account = || (AnchorIdentity::Account(pinned("base").fingerprint), false);
        let login = provider::of(Claude).parse_login(LOGIN.as_bytes());
        let digest = login.unwrap().digest;
        assert_eq!(base_of(&world, &proved(&digest)), account());
        let renew = (AnchorIdentity::Unverified("unproven"), true);
        assert_eq!(
            base_of(&world, &proved("other")),
            renew,
            "it changed and can be asked"
        );
        world.context.clock = Clock::moved("2026-11-30T16:00:01Z");
        assert_eq!(
            base_of(&world, &proved("other")),
            account(),
            "it cannot be asked now"
        );
        assert_eq!(base_of(&world, &none), unverified("token_expired"));
    }

    #[test]
    fn the_desktop_file_is_read_each_time_and_fails_closed() {
        let world = World::new();
        let path = root(&world).join("config.json");
        let settings = settings(Anchor::Off, Anchor::At(path.clone()));
        let desktop = || {
            let standing = look(&world.context, &settings, &Snapshot::default()).unwrap();
            standing.anchors.desktop
        };
        assert_eq!(desktop(), AnchorIdentity::Unverified("missing"));
        world.write(&path, "{");
        assert_eq!(desktop(), AnchorIdentity::Unverified("unreadable"));
        world.write(&path, "{\"lastKnownAccountUuid\":null}");
        assert_eq!(desktop(), AnchorIdentity::Unverified("no_account"));
        world.write(&path, "{\"lastKnownAccountUuid\":\"one\"}");
        let one = desktop();
        assert!(matches!(one, AnchorIdentity::Account(_)));
        world.write(&path, "{\"lastKnownAccountUuid\":\"two\"}");
        assert_ne!(desktop(), one);
    }

    #[test]
    fn a_desktop_file_that_is_being_written_is_waited_for() {
        let world = World::new();
        let path = root(&world).join("config.json");
        let settings = settings(Anchor::Off, Anchor::At(path.clone()));
        world.write(&path, "{\"lastKnownAccountUuid\":");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Clock::real().pause(std::time::Duration::from_millis(5));
                world.write(&path, "{\"lastKnownAccountUuid\":\"one\"}");
            });
            let standing = look(&world.context, &settings, &Snapshot::default()).unwrap();
            let desktop = standing.anchors.desktop;
            assert!(matches!(desktop, AnchorIdentity::Account(_)), "{desktop:?}");
        });
    }
}
