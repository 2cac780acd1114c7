//! Sessions of browsers: what a cookie stands for. Who keeps them is a feature's business; what they allow is the API
//! server's, which asks for the credential behind a session anew with each request.

use http::{HeaderMap, Method};

/// Who knows the sessions.
pub trait BrowserSessions: Send + Sync {
    /// What the request's cookie stands for. None without one, and where it does not count: it is sent along by every
    /// page that makes the browser ask.
    fn find(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<BrowserSession>;

    /// Takes the cookie from a request: nobody further on gets to see it.
    fn hide(&self, headers: &mut HeaderMap);

    /// Takes whatever would set the cookie from an answer that others wrote: the browser has it from our own address.
    fn protect(&self, headers: &mut HeaderMap);
}

/// A session that counts for a request.
#[derive(Debug, Clone)]
pub struct BrowserSession {
    pub credential: Credential,
    pub limits: SessionLimits,
}

/// What a session was opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// Verified with every request, so that a session ends with its token.
    Token(String),
    /// Whom a client certificate named. The session ends with the certificate.
    Certificate { name: String, groups: Vec<String> },
}

/// What a session may do at most, whatever its user may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionLimits {
    /// Nothing but reading, and no Secrets.
    pub read_only: bool,
    /// Nothing of other namespaces; empty is all.
    pub namespace: String,
}
