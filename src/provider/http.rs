//! The one HTTP client: a GET with the login's own access token or key, and nothing else.
//!
//! HTTPS only, through the proxy that the environment names, trusting Mozilla's roots and the CA files of
//! `NODE_EXTRA_CA_CERTS`, `SSL_CERT_FILE` and `CODEX_CA_CERTIFICATE`. No redirect is followed, so the token
//! reaches no other host. Nothing is refreshed, nothing is retried, answers end at one MiB. Errors name
//! neither the token nor anything that the server wrote. Limits: SOCKS proxies are not supported; a proxy
//! that cannot be used is an error, never a way around it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde_json::Value;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Timeout};

use super::FetchError;
use crate::clock::Deadline;
use crate::env::{Context, Variables};
use crate::secret::Secret;
use crate::store::read;

/// Largest answer, in bytes; real ones have a few thousand.
const ANSWER_LIMIT: u64 = 1 << 20;
/// Why no TLS connection came about, most likely.
const UNTRUSTED: &str = "the TLS connection failed; a proxy may need its CA in SSL_CERT_FILE";
/// What we say we are: ourselves.
const USER_AGENT: &str = concat!("agent-fleet/", env!("CARGO_PKG_VERSION"));
/// Where proxies are named, the most specific first; lower case wins, as in curl.
const PROXY_VARIABLES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
/// Where hosts are named that are reached without the proxy.
const NO_PROXY_VARIABLES: [&str; 2] = ["no_proxy", "NO_PROXY"];
/// Where extra CA certificates are named.
const CA_VARIABLES: [&str; 3] = [
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "CODEX_CA_CERTIFICATE",
];

/// A client for a few GETs to one host before one deadline.
pub(crate) struct Client {
    agent: Agent,
    host: &'static str,
    now: Timestamp,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Client({})", self.host)
    }
}

impl Client {
    /// A client for `host`. This is where TLS is set up, which costs milliseconds: make none in vain.
    pub(crate) fn new(
        context: &Context,
        host: &'static str,
        deadline: &Deadline,
    ) -> Result<Self, FetchError> {
        // Zero would mean no limit at all.
        let timeout = deadline.left().max(Duration::from_millis(1));
        let proxy = match proxy(&context.variables, host) {
            Some(address) => Some(
                ureq::Proxy::new(address)
                    .map_err(|_| unreached("the proxy address cannot be used"))?,
            ),
            None => None,
        };
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots(&context.variables))))
            .build();
        let agent = Agent::config_builder()
            .https_only(true)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .tls_config(tls)
            .timeout_global(Some(timeout))
            // So that a dead network is told from a slow server.
            .timeout_connect(Some(timeout * 2 / 3))
            .user_agent(USER_AGENT)
            .build()
            .new_agent();
        Ok(Self {
            agent,
            host,
            now: context.clock.now(),
        })
    }

    /// Asks for a path, showing the token, and reads the answer as JSON.
    pub(crate) fn get(
        &self,
        path: &str,
        token: &Secret,
        headers: &[(&str, &str)],
    ) -> Result<Value, FetchError> {
        let bearer = format!("Bearer {}", token.expose());
        self.request(path, ("authorization", &bearer), headers)
    }

    /// The same, with the header by which the server wants to be shown a credential.
    pub(crate) fn request(
        &self,
        path: &str,
        (credential, shown): (&str, &str),
        headers: &[(&str, &str)],
    ) -> Result<Value, FetchError> {
        let mut request = self
            .agent
            .get(format!("https://{}{path}", self.host))
            .header(credential, shown)
            .header("accept", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = request.call().map_err(|error| failure(&error))?;
        let wait = || {
            let header = response.headers().get("retry-after")?.to_str().ok()?;
            retry_after(header, self.now)
        };
        match response.status().as_u16() {
            200 => {}
            401 => return Err(FetchError::Unauthorized),
            403 => return Err(FetchError::Forbidden),
            429 => return Err(FetchError::Throttled(wait())),
            300..=399 => return Err(unavailable("it answered with a redirect")),
            other => {
                // A server that is down and says for how long wants to be left alone.
                return Err(match wait().filter(|_| other == 503) {
                    Some(wait) => FetchError::Throttled(Some(wait)),
                    None => FetchError::Unavailable(format!("it answered {other}")),
                });
            }
        }
        let body = response
            .body_mut()
            .with_config()
            .limit(ANSWER_LIMIT)
            .read_to_vec()
            .map_err(|error| failure(&error))?;
        serde_json::from_slice(&body).map_err(|_| FetchError::Shape)
    }
}

/// The seconds that a Retry-After header asks for: a number, which may be larger than any clock, or a date.
fn retry_after(header: &str, now: Timestamp) -> Option<u64> {
    let header = header.trim();
    if !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(header.parse().unwrap_or(u64::MAX));
    }
    let at = rfc2822::parse(header).ok()?.timestamp();
    Some(u64::try_from(at.as_second().saturating_sub(now.as_second())).unwrap_or(0))
}

fn unavailable(why: &str) -> FetchError {
    FetchError::Unavailable(why.to_owned())
}

fn unreached(why: &str) -> FetchError {
    FetchError::Unreached(why.to_owned())
}

/// What went wrong, in words of our own: the client's may quote what it sent.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the client may get new errors, which would have no words of their own"
)]
fn failure(error: &ureq::Error) -> FetchError {
    match error {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            unreached("it did not answer in time")
        }
        ureq::Error::Timeout(_) => unavailable("it did not answer in time"),
        ureq::Error::HostNotFound => unreached("its host name is not known"),
        ureq::Error::Io(error) if error.kind() == ErrorKind::InvalidData => unreached(UNTRUSTED),
        ureq::Error::Io(error) => match error.kind() {
            // The request may have arrived.
            ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => {
                FetchError::Unavailable(error.kind().to_string())
            }
            kind => FetchError::Unreached(kind.to_string()),
        },
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => unreached(UNTRUSTED),
        ureq::Error::ConnectProxyFailed(_) => unreached("the proxy refused the connection"),
        ureq::Error::ConnectionFailed => unreached("the connection failed"),
        ureq::Error::BodyExceedsLimit(_) => unavailable("its answer is too long"),
        ureq::Error::Http(_) => unavailable("the token cannot be sent in a header"),
        _ => unavailable("the connection failed"),
    }
}

/// The proxy for a host, if the environment names one.
fn proxy<'a>(variables: &'a Variables, host: &str) -> Option<&'a str> {
    let address = PROXY_VARIABLES
        .iter()
        .find_map(|name| variables.text(name))?;
    let direct = NO_PROXY_VARIABLES
        .iter()
        .find_map(|name| variables.text(name))
        .is_some_and(|list| list.split(',').any(|entry| covers(entry.trim(), host)));
    (!direct).then_some(address)
}

/// Whether an entry of `NO_PROXY` means this host: itself or a domain above it, with or without a dot or a
/// star before it; a port is ignored.
fn covers(entry: &str, host: &str) -> bool {
    let entry = entry.split(':').next().unwrap_or_default();
    let domain = entry.trim_start_matches('*').trim_start_matches('.');
    if domain.is_empty() {
        return entry.starts_with('*');
    }
    let (host, domain) = (host.to_ascii_lowercase(), domain.to_ascii_lowercase());
    host.strip_suffix(domain.as_str())
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Mozilla's roots and those that the environment names. A CA file that cannot be read adds nothing: what
/// depends on it fails with a word about CAs.
fn roots(variables: &Variables) -> Vec<Certificate<'static>> {
    let mut roots: Vec<_> = webpki_root_certs::TLS_SERVER_ROOT_CERTS
        .iter()
        .map(|certificate| Certificate::from_der(certificate))
        .collect();
    for path in CA_VARIABLES.iter().filter_map(|name| variables.raw(name)) {
        let bytes = read::optional(std::path::Path::new(path))
            .ok()
            .flatten()
            .unwrap_or_default();
        for item in parse_pem(&bytes) {
            if let Ok(PemItem::Certificate(certificate)) = item {
                roots.push(certificate);
            }
        }
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::{covers, proxy, retry_after};
    use crate::env::Variables;
    use jiff::Timestamp;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().copied().collect()
    }

    #[test]
    fn the_proxy_comes_from_the_captured_environment_and_no_proxy_takes_hosts_out() {
        let all = variables(&[("ALL_PROXY", "http://all:1"), ("HTTPS_PROXY", "http://p:2")]);
        assert_eq!(proxy(&all, "chatgpt.com"), Some("http://p:2"));
        let spared = variables(&[
            ("https_proxy", "http://p:2"),
            ("NO_PROXY", "localhost, .chatgpt.com"),
        ]);
        assert_eq!(proxy(&spared, "chatgpt.com"), None);
        assert_eq!(proxy(&spared, "api.anthropic.com"), Some("http://p:2"));
        assert_eq!(proxy(&variables(&[]), "chatgpt.com"), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_garbage_is_nothing() {
        let now: Timestamp = "2026-11-30T08:00:00Z".parse().unwrap();
        for (header, seconds) in [
            ("0", Some(0)),
            (" 3600 ", Some(3600)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Mon, 30 Nov 2026 09:00:00 GMT", Some(3600)),
            ("Mon, 30 Nov 2026 07:00:00 GMT", Some(0)),
            ("", None),
            ("-5", None),
            ("soon", None),
            ("1.5", None),
            ("3600, 60", None),
        ] {
            assert_eq!(retry_after(header, now), seconds, "{header}");
        }
    }

    #[test]
    fn no_proxy_names_hosts_and_domains_and_nothing_that_merely_ends_alike() {
        for entry in [
            "chatgpt.com",
            "*.com",
            ".com",
            "com",
            "*",
            "CHATGPT.com:443",
        ] {
            assert!(covers(entry, "chatgpt.com"), "{entry}");
        }
        for entry in ["", "gpt.com", "a.chatgpt.com", "127.0.0.1", "."] {
            assert!(!covers(entry, "chatgpt.com"), "{entry}");
        }
    }
}
