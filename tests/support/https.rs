//! The providers' servers, as far as a client can tell: a proxy that answers for every host behind it, with a
//! certificate of a CA that only tests trust.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The CA that signed the server's certificate.
pub(crate) const CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tls/ca.pem");
const CHAIN: &[u8] = include_bytes!("../../fixtures/tls/server.pem");
const KEY: &[u8] = include_bytes!("../../fixtures/tls/server.key");

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The host that the proxy was asked to connect to.
    pub host: String,
    /// The path.
    pub path: String,
    /// The token that was shown.
    pub token: String,
}

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub status: u16,
    /// Header lines, each with its line end.
    pub headers: String,
    pub body: Vec<u8>,
    /// How long it takes to come.
    pub delay: Duration,
}

impl Answer {
    /// An answer without a body.
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            headers: String::new(),
            body: Vec::new(),
            delay: Duration::ZERO,
        }
    }

    /// 200 with JSON.
    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self {
            body: value.to_string().into_bytes(),
            ..Self::status(200)
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push_str(&[name, ": ", value, "\r\n"].concat());
        self
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

type Respond = Box<dyn Fn(&Asked) -> Answer + Send>;

struct Shared {
    respond: Mutex<Respond>,
    asked: Mutex<Vec<Asked>>,
    connected: Mutex<Vec<String>>,
    tls: Arc<ServerConfig>,
}

/// The proxy; it ends with this value.
pub(crate) struct Https {
    shared: Arc<Shared>,
    address: std::net::SocketAddr,
}

impl std::fmt::Debug for Https {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Https({})", self.address)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Https {
    /// A proxy whose servers answer so.
    pub(crate) fn new(respond: impl Fn(&Asked) -> Answer + Send + 'static) -> Self {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(CHAIN)
            .collect::<Result<_, _>>()
            .expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a certificate and its key");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            respond: Mutex::new(Box::new(respond)),
            asked: Mutex::default(),
            connected: Mutex::default(),
            tls: Arc::new(tls),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if Arc::strong_count(&serving) == 1 {
                    return;
                }
                let serving = Arc::clone(&serving);
                // A client that goes away in the middle is none of the test's affairs.
                std::thread::spawn(move || drop(serve(&serving, stream)));
            }
        });
        Self { shared, address }
    }

    /// The address for `HTTPS_PROXY`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes what the servers answer.
    pub(crate) fn respond(&self, respond: impl Fn(&Asked) -> Answer + Send + 'static) {
        *locked(&self.shared.respond) = Box::new(respond);
    }

    /// Every request so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        locked(&self.shared.asked).clone()
    }

    /// The paths of the requests since the last call of this.
    pub(crate) fn take_paths(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *locked(&self.shared.asked));
        let mut paths: Vec<_> = asked.into_iter().map(|asked| asked.path).collect();
        paths.sort();
        paths
    }

    /// The hosts that connections were asked for.
    pub(crate) fn connected(&self) -> Vec<String> {
        locked(&self.shared.connected).clone()
    }
}

impl Drop for Https {
    fn drop(&mut self) {
        // Wakes the listener, which finds that it is alone.
        let address = self.address;
        self.shared = Arc::new(Shared {
            respond: Mutex::new(Box::new(|_| Answer::status(500))),
            asked: Mutex::default(),
            connected: Mutex::default(),
            tls: Arc::clone(&self.shared.tls),
        });
        drop(TcpStream::connect(address));
    }
}

/// The lines of a head, up to the empty one; `None` at the end of the stream.
fn head(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<String>>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            return Ok(Some(lines));
        }
        lines.push(line);
    }
}

fn serve(shared: &Shared, stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut plain = BufReader::new(stream.try_clone()?);
    let Some(lines) = head(&mut plain)? else {
        return Ok(());
    };
    let target = lines.first().and_then(|line| line.split(' ').nth(1));
    let host = target
        .unwrap_or_default()
        .trim_end_matches(":443")
        .to_owned();
    locked(&shared.connected).push(host.clone());
    let mut stream = stream;
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let session = ServerConnection::new(Arc::clone(&shared.tls)).map_err(std::io::Error::other)?;
    let mut tls = BufReader::new(StreamOwned::new(session, stream));
    while let Some(lines) = head(&mut tls)? {
        let path = lines.first().and_then(|line| line.split(' ').nth(1));
        let token = lines.iter().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            ["authorization", "x-api-key"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
                .then(|| value.trim_start_matches("Bearer ").to_owned())
        });
        let asked = Asked {
            host: host.clone(),
            path: path.unwrap_or_default().to_owned(),
            token: token.unwrap_or_default(),
        };
        locked(&shared.asked).push(asked.clone());
        let answer = locked(&shared.respond)(&asked);
        wait(answer.delay);
        let head = format!(
            "HTTP/1.1 {} Said\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.status,
            answer.headers,
            answer.body.len()
        );
        let tls = tls.get_mut();
        tls.write_all(head.as_bytes())?;
        tls.write_all(&answer.body)?;
        tls.flush()?;
    }
    tls.get_ref().sock.shutdown(Shutdown::Both)
}

#[expect(clippy::disallowed_methods, reason = "a slow server")]
fn wait(span: Duration) {
    std::thread::sleep(span);
}
