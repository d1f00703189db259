//! Tokens, keys and credential files.

use crate::enroll::given;
use crate::id::{ProfileId, ProviderKind};
use crate::provider::{self, LoginKind};
use crate::registry::schema::Credential;
use crate::secret::kept;

/// Long enough to stand in no message by accident.
const TELLING: usize = 8;

/// What a person gives has one form at most; what is kept comes back; no form shows what it holds.
pub fn secrets(bytes: &[u8]) {
    if let Ok(text) = given::one_line(bytes) {
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
        form(text);
    }
    for kind in [ProviderKind::Claude, ProviderKind::Codex] {
        let Ok(login) = provider::of(kind).parse_login(bytes) else {
            continue;
        };
        assert_eq!(login.digest.len(), 64);
        let shown = format!("{login:?}");
        for secret in login.access_token.iter().chain(&login.account_id) {
            let secret = secret.expose();
            let tells =
                secret.len() >= TELLING && secret.bytes().all(|byte| byte.is_ascii_graphic());
            assert!(!tells || !shown.contains(secret) || login.digest.contains(secret));
        }
        let again = provider::of(kind)
            .parse_login(bytes)
            .expect("it was read before");
        assert_eq!(again.digest, login.digest);
    }
    if let Ok(kept) = kept::parse(bytes) {
        let profile: ProfileId = "claude-1".parse().expect("an id");
        let text = kept::text(&profile, &kept).expect("what was kept can be kept");
        assert_eq!(kept::parse(text.expose().as_bytes()), Ok(kept));
    }
}

fn form(text: &str) {
    let mut taken = 0;
    for kind in [ProviderKind::Claude, ProviderKind::Codex] {
        let provider = provider::of(kind);
        for credential in [Credential::SetupToken, Credential::ApiKey] {
            if !provider.has_form(credential, text) {
                continue;
            }
            taken += 1;
            let secret = crate::secret::Secret::new(text);
            let Some(file) = provider.key_file(&secret) else {
                continue;
            };
            let login = provider.parse_login(file.expose().as_bytes());
            let login = login.expect("a key reads back from its own file");
            assert_eq!(login.kind, LoginKind::ApiKey);
        }
    }
    assert!(taken <= 1, "one text has {taken} forms");
}
