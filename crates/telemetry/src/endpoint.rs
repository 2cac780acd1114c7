//! Where a collector is, and what it must be shown.

use std::io::BufReader;
use std::str::FromStr;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Uri};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use crate::{loki, otlp};

/// What this machine trusts, where no authority is given.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

#[derive(Debug, Error)]
pub enum EndpointError {
    #[error("{0:?} is no address of a collector: give http://HOST:PORT or https://HOST:PORT")]
    Url(String),
    #[error("say how the collector is spoken to: otlp=URL or loki=URL, not {0:?}")]
    Protocol(String),
    #[error("line {0} of the headers is no `Name: value`")]
    Header(usize),
    #[error("cannot read {SYSTEM_ROOTS}, by which the collector is known")]
    Roots(#[source] std::io::Error),
    #[error("the authority of the collector cannot be read: {0}")]
    Authority(String),
}

/// How logs are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogProtocol {
    Otlp,
    Loki,
}

/// A collector's address and credentials.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    /// `None` for plain HTTP.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Without headers, which hold credentials.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

impl LogProtocol {
    /// `otlp=URL` or `loki=URL`.
    pub fn split(text: &str) -> Result<(Self, &str), EndpointError> {
        match text.split_once('=') {
            Some(("otlp", url)) => Ok((LogProtocol::Otlp, url)),
            Some(("loki", url)) => Ok((LogProtocol::Loki, url)),
            _ => Err(EndpointError::Protocol(text.to_owned())),
        }
    }

    /// Where such collectors take logs.
    pub fn path(self) -> &'static str {
        match self {
            LogProtocol::Otlp => otlp::LOGS_PATH,
            LogProtocol::Loki => loki::PATH,
        }
    }
}

impl Endpoint {
    /// `HOST:PORT`, also where the host is an address of IPv6.
    pub(crate) fn authority(&self) -> String {
        let Endpoint { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// A URL without a path gets the one at which such collectors listen. `authority` is in PEM; without one, those count
    /// that the machine trusts. `headers` is a text with one `Name: value` a line.
    pub fn new(
        url: &str,
        path: &str,
        headers: &str,
        authority: Option<&[u8]>,
    ) -> Result<Self, EndpointError> {
        let wrong = || EndpointError::Url(url.to_owned());
        let uri = Uri::from_str(url).map_err(|_| wrong())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong());
        }
        let given = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Endpoint {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 }),
            path: if given == "/" { path.to_owned() } else { given.to_owned() },
            tls: is_secure.then(|| tls(authority)).transpose()?,
            headers: parse_headers(headers)?,
        })
    }
}

fn parse_headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, EndpointError> {
    let mut headers = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = || EndpointError::Header(at + 1);
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.push((name, value));
    }
    Ok(headers)
}

fn tls(authority: Option<&[u8]>) -> Result<Arc<ClientConfig>, EndpointError> {
    let system;
    let pem = match authority {
        Some(pem) => pem,
        None => {
            system = std::fs::read(SYSTEM_ROOTS).map_err(EndpointError::Roots)?;
            &system
        }
    };
    let wrong = |error: &dyn std::fmt::Display| EndpointError::Authority(error.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_reader_iter(BufReader::new(pem)) {
        roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(EndpointError::Authority("it holds no certificate".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |url: &str, want: Option<&str>| {
            let found = Endpoint::new(url, "/v1/logs", "", None).ok().map(|endpoint| format!("{endpoint:?}"));
            assert_eq!(found.as_deref(), want, "{url}");
        };
        check("http://collector:4318", Some("http://collector:4318/v1/logs"));
        check("http://10.0.0.1", Some("http://10.0.0.1:80/v1/logs"));
        check("http://[::1]:4318/", Some("http://[::1]:4318/v1/logs"));
        check("http://collector:4318/tenant/logs?x=1", Some("http://collector:4318/tenant/logs?x=1"));
        check("collector:4318", None);
        check("ftp://collector", None);
        check("http://user:word@collector", None);
        check("http://", None);
        check("", None);
    }

    #[test]
    fn headers_and_authorities_that_are_none_are_refused() {
        let check = |headers: &str, pem: Option<&[u8]>, part: &str| {
            let error = Endpoint::new("https://c", "/", headers, pem).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let made =
            Endpoint::new("http://c", "/", "X-Scope-OrgID: a\n\nAuthorization: Bearer x\n", None).unwrap();
        assert_eq!(made.headers.len(), 2);
        assert!(!format!("{made:?}").contains("Bearer"), "credentials are not told");
        check("nonsense", Some(b""), "no certificate");
        assert!(
            Endpoint::new("http://c", "/", "\nnonsense", None).unwrap_err().to_string().contains("line 2")
        );
        assert!(LogProtocol::split("loki=http://l").is_ok());
        assert!(LogProtocol::split("http://l").unwrap_err().to_string().contains("otlp=URL"));
    }
}
