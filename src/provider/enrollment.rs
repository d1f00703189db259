//! What enrolling needs of a provider: how its own CLI logs a person in, in a home that nobody uses yet.

/// How the person says who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// So that it works over ssh: a code or a link that any browser takes.
    Anywhere,
    /// With a browser on this machine.
    Browser,
}
