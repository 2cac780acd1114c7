//! Policies on requests: what comes to a port about whose requests some policy has something to say is looked at one by
//! one, and goes on to the pod's own process or is refused.

use std::borrow::Cow;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use http::header::HeaderValue;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use minik8s_meta::mesh::Identity;
use minik8s_proxy::{Answering, Client, Front, Refusal, RequestHead, Route, Turns, Worker};

use super::counters::{Counters, DENIED, WOULD_DENY};
use super::tls::Tls;
use crate::policy::verdict::{Asked, Policies};

/// Handshakes with clients that are under way.
const HANDSHAKES: usize = 128;

/// What comes to the pod, as a user of the data path.
#[derive(Debug)]
pub struct Guard {
    pub handshakes: Arc<Turns>,
}

impl Default for Guard {
    fn default() -> Self {
        Guard { handshakes: Turns::new(HANDSHAKES) }
    }
}

/// All that is known of who may come in, replaced as a whole.
#[derive(Debug, Default)]
pub struct Guarded {
    /// Nobody has said yet who may come in: nobody does.
    pub is_untold: bool,
    pub strict: bool,
    pub policies: Policies,
    pub tls: Option<Arc<Tls>>,
    pub counters: Arc<Counters>,
    pub process: Process,
}

/// The pod's own process, wherever the client wanted to go.
#[derive(Debug)]
pub struct Process(Arc<str>);

impl Default for Process {
    fn default() -> Self {
        Process("".into())
    }
}

impl Front for Guard {
    type Table = Guarded;
    type Route = Process;

    const METRICS: (&'static str, &'static str) = ("minik8s_mesh_inbound", "destination");
    const SAYS_FORWARDED: bool = false;

    fn find<'t>(table: &'t Guarded, client: &Client, head: &RequestHead<'_>) -> Result<&'t Process, Refusal> {
        let port = client.destination.map_or(0, |destination| destination.port());
        let Some(path) = plain_path(head.path()) else {
            let text = "the path can be read in two ways, and a MeshPolicy is about paths";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
        };
        let identity: Option<Identity> = client.identity.as_ref().and_then(|text| text.parse().ok());
        let asked = Asked { identity: identity.as_ref(), port, http: Some((head.method, &path)) };
        let verdict = table.policies.verdict(asked);
        verdict.would_deny.iter().for_each(|policy| table.counters.count(WOULD_DENY, policy));
        match verdict.denied_by {
            None => Ok(&table.process),
            Some(policy) => {
                table.counters.count(DENIED, policy);
                let who = client.identity.as_deref().unwrap_or("a caller that has not proved who it is");
                let text = format!("MeshPolicy {policy} does not allow {} {path} to {who}", head.method);
                Err(Refusal::new(StatusCode::FORBIDDEN, text))
            }
        }
    }

    /// Connections to the process that wait are closed soon: whoever it is listens elsewhere tomorrow.
    fn endpoints(_: &Guarded) -> HashSet<SocketAddr> {
        HashSet::new()
    }

    fn answer<'a>(
        _: &'a Worker<Self>,
        _: &'a Process,
        _: HeaderValue,
        _: &'a Client,
        _: Request<Incoming>,
    ) -> Answering<'a> {
        Box::pin(async { Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "nothing answers itself")) })
    }
}

impl Route for Process {
    fn label(&self) -> &Arc<str> {
        &self.0
    }

    fn service(&self) -> &str {
        "of this pod"
    }

    fn endpoints(&self) -> Result<Arc<[SocketAddr]>, Refusal> {
        Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "nobody knows where a request wanted to go"))
    }

    fn endpoints_for(&self, client: &Client) -> Result<Arc<[SocketAddr]>, Refusal> {
        client.destination.map_or_else(|| self.endpoints(), |destination| Ok([destination].into()))
    }

    fn first(&self, _: &Client, _: &AtomicUsize, _: usize) -> usize {
        0
    }
}

/// The path as the pod's process will understand it. `None` where two readers could understand it differently: with
/// elements `.` and `..`, empty ones, or encoded signs that mean something in a path.
fn plain_path(path: &str) -> Option<Cow<'_, str>> {
    let decoded: Cow<'_, str> = if path.contains('%') { decode(path)?.into() } else { path.into() };
    let is_odd = |part: &str| matches!(part, "." | "..");
    let is_clear = !decoded.contains("//") && !decoded.contains('\\') && !decoded.split('/').any(is_odd);
    (is_clear && decoded.starts_with('/')).then_some(decoded)
}

/// Letters, digits and the like that need not have been encoded. `None` if something else was that could be mistaken.
fn decode(path: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        let code = u8::from_str_radix(after.get(..2)?, 16).ok()?;
        out += before;
        match code {
            b'/' | b'\\' | 0..=0x1f | 0x7f => return None,
            code if code.is_ascii_alphanumeric() || b"-._~".contains(&code) => out.push(char::from(code)),
            _ => {
                out.push('%');
                out += &after[..2];
            }
        }
        rest = &after[2..];
    }
    Some(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_understood_in_one_way() {
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(plain_path(path).as_deref(), expected, "{path}");
        };
        check("/reviews/1", Some("/reviews/1"));
        check("/%61dmin", Some("/admin"));
        check("/a%20b", Some("/a%20b"));
        for odd in [
            "/a/../b",
            "/a/%2e%2e/b",
            "/a//b",
            "/a%2fb",
            "/a/./b",
            "/a%5cb",
            "/a\\b",
            "/a%00",
            "/%",
            "/%zz",
            "*",
        ] {
            check(odd, None);
        }
    }
}
