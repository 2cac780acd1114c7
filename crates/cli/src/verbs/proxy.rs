//! `proxy`: the API server on a port of this machine, with the kubeconfig's credentials. Whoever reaches the port has them,
//! so pages of elsewhere are told apart by the host that they name, and shells in pods are not to be had.

use std::convert::Infallible;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use http::header::{CONNECTION, HOST, HeaderName, TRANSFER_ENCODING, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use regex::Regex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use crate::error::{Error, Result};
use crate::output;
use crate::session::Session;

/// What API servers take.
const LONGEST_BODY: usize = 3 << 20;

/// Serve the API on a port of this machine
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s proxy
  minik8s proxy --port=0 --api-prefix=/k8s
  minik8s proxy --unix-socket=/tmp/api.sock")]
pub struct Proxy {
    /// Port to listen on; 0 for any that is free
    #[arg(short, long, value_name = "PORT", default_value_t = 8001)]
    port: u16,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: IpAddr,
    /// Listen on a socket of this name instead
    #[arg(short, long, value_name = "FILE")]
    unix_socket: Option<PathBuf>,
    /// Serve the API below this path
    #[arg(long, value_name = "PATH", default_value = "/")]
    api_prefix: String,
    /// Hosts that requests may name, as regular expressions
    #[arg(long, value_name = "LIST", default_value = r"^localhost$,^127\.0\.0\.1$,^\[::1\]$")]
    accept_hosts: String,
    /// Paths that are passed on
    #[arg(long, value_name = "LIST", default_value = "^.*")]
    accept_paths: String,
    /// Paths that are not, whatever else is said
    #[arg(long, value_name = "LIST", default_value = "^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach")]
    reject_paths: String,
    /// Methods that are not passed on
    #[arg(long, value_name = "LIST", default_value = "^$")]
    reject_methods: String,
    /// Pass everything on: whoever reaches the port may do what you may
    #[arg(long)]
    disable_filter: bool,
}

pub async fn run(session: &Session, verb: Proxy) -> Result<()> {
    let door = Arc::new(Door {
        client: session.client().await?.plain(),
        prefix: verb.api_prefix.trim_end_matches('/').to_owned(),
        filter: if verb.disable_filter { None } else { Some(Filter::of(&verb)?) },
    });
    if let Some(path) = &verb.unix_socket {
        let listener = UnixListener::bind(path)
            .map_err(|error| Error::plain(format!("cannot listen on {}: {error}", path.display())))?;
        output::line(format_args!("Starting to serve on {}", path.display()));
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(serve(door.clone(), stream));
        }
    }
    let listener = TcpListener::bind((verb.address, verb.port))
        .await
        .map_err(|error| Error::plain(format!("cannot listen on {}:{}: {error}", verb.address, verb.port)))?;
    output::line(format_args!("Starting to serve on {}", listener.local_addr()?));
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(door.clone(), stream));
    }
}

/// Which requests pass.
struct Filter {
    hosts: Vec<Regex>,
    paths: Vec<Regex>,
    rejected_paths: Vec<Regex>,
    rejected_methods: Vec<Regex>,
}

impl Filter {
    fn of(verb: &Proxy) -> Result<Filter> {
        let list = |text: &str| {
            let parts = text.split(',').filter(|part| !part.is_empty());
            let regex = |part: &str| {
                Regex::new(part)
                    .map_err(|error| Error::plain(format!("{part:?} is no regular expression: {error}")))
            };
            parts.map(regex).collect::<Result<Vec<Regex>>>()
        };
        Ok(Filter {
            hosts: list(&verb.accept_hosts)?,
            paths: list(&verb.accept_paths)?,
            rejected_paths: list(&verb.reject_paths)?,
            rejected_methods: list(&verb.reject_methods)?,
        })
    }

    fn passes(&self, method: &str, host: &str, path: &str) -> bool {
        let any = |list: &[Regex], text: &str| list.iter().any(|one| one.is_match(text));
        // What follows the last colon is the port, but within the brackets of an address.
        let end = host.rfind(':').filter(|colon| !host[*colon..].contains(']')).unwrap_or(host.len());
        any(&self.hosts, &host[..end])
            && any(&self.paths, path)
            && !any(&self.rejected_paths, path)
            && !any(&self.rejected_methods, method)
    }
}

struct Door {
    client: kube::Client,
    prefix: String,
    filter: Option<Filter>,
}

async fn serve(door: Arc<Door>, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let answer = service_fn(move |request| {
        let door = door.clone();
        async move { Ok::<_, Infallible>(door.answer(request).await) }
    });
    // A client that goes away is no trouble of ours.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).with_upgrades().await;
}

impl Door {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let (method, path) = (request.method().as_str(), request.uri().path());
        if self.filter.as_ref().is_some_and(|filter| !filter.passes(method, host, path)) {
            return plain(StatusCode::FORBIDDEN, "Forbidden");
        }
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let Some(target) = target.strip_prefix(&self.prefix).filter(|rest| rest.starts_with('/')) else {
            return plain(StatusCode::NOT_FOUND, "404 page not found");
        };
        let target = target.to_owned();
        let forwarded = self.forward(request, &target).await;
        forwarded.unwrap_or_else(|error| plain(StatusCode::BAD_GATEWAY, &error.to_string()))
    }

    async fn forward(
        &self,
        mut request: Request<Incoming>,
        target: &str,
    ) -> Result<Response<Body>, kube::Error> {
        let upgrade = request.headers().contains_key(UPGRADE).then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, LONGEST_BODY).collect().await else {
            return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE, "an object has three megabytes at most"));
        };
        let mut outgoing = Request::new(Body::from(body.to_bytes()));
        *outgoing.method_mut() = parts.method;
        *outgoing.uri_mut() = target.parse().unwrap_or_default();
        let own = [HOST, TRANSFER_ENCODING, http::header::CONTENT_LENGTH, http::header::AUTHORIZATION];
        for (name, value) in parts.headers.iter().filter(|(name, _)| !own.contains(name)) {
            if *name != CONNECTION || upgrade.is_some() {
                outgoing.headers_mut().append(name, value.clone());
            }
        }
        let mut answer = self.client.send(outgoing).await?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some(ours) = upgrade
        {
            let theirs = hyper::upgrade::on(&mut answer);
            tokio::spawn(async move {
                let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) else { return };
                let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
                let _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await;
            });
            let mut switched = Response::new(Body::empty());
            *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            *switched.headers_mut() = answer.headers().clone();
            return Ok(switched);
        }
        let (mut parts, body) = answer.into_parts();
        parts.version = http::Version::HTTP_11;
        for name in [CONNECTION, TRANSFER_ENCODING, HeaderName::from_static("keep-alive")] {
            parts.headers.remove(name);
        }
        Ok(Response::from_parts(parts, body))
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{text}\n").into_bytes()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        verb: Proxy,
    }

    #[test]
    fn foreign_hosts_and_shells_are_refused() {
        let check = |flags: &[&str], method: &str, host: &str, path: &str, expected: bool| {
            let line = Line::parse_from([&["proxy"], flags].concat());
            let filter = Filter::of(&line.verb).unwrap();
            assert_eq!(filter.passes(method, host, path), expected, "{flags:?} {method} {host} {path}");
        };
        check(&[], "GET", "127.0.0.1:8001", "/api/v1/pods", true);
        check(&[], "GET", "localhost", "/api/v1/pods", true);
        check(&[], "DELETE", "[::1]:8001", "/api/v1/namespaces/a/pods/b", true);
        check(&[], "GET", "evil.example:8001", "/api/v1/pods", false);
        check(&[], "GET", "localhost.evil.example", "/api/v1/pods", false);
        check(&[], "GET", "", "/api/v1/pods", false);
        check(&[], "POST", "localhost", "/api/v1/namespaces/a/pods/b/exec", false);
        check(&["--reject-methods=^(POST|PUT)$"], "POST", "localhost", "/api/v1/pods", false);
        check(&["--accept-paths=^/api/"], "GET", "localhost", "/apis/apps", false);
        let broken = Line::parse_from(["proxy", "--accept-hosts=("]);
        assert!(Filter::of(&broken.verb).is_err());
    }
}
