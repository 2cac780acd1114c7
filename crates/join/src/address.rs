//! Where a server listens.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

const PORT: u16 = 6443;

/// `https://HOST[:PORT]`, as it stands on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    pub host: String,
    pub port: u16,
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not the address of a server: it looks like https://HOST:6443")]
pub struct ServerAddressError(String);

impl FromStr for ServerAddress {
    type Err = ServerAddressError;

    fn from_str(text: &str) -> Result<Self, ServerAddressError> {
        let wrong = || ServerAddressError(text.to_owned());
        let uri: http::Uri = text.trim().trim_end_matches('/').parse().map_err(|_| wrong())?;
        let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
        match (uri.scheme_str(), uri.host()) {
            (Some("https"), Some(host)) if is_bare && !host.is_empty() => {
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                Ok(ServerAddress { host, port: uri.port_u16().unwrap_or(PORT) })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "https://[{}]:{}", self.host, self.port),
            false => write!(f, "https://{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, expected: Option<(&str, u16)>| {
            let parsed = text.parse::<ServerAddress>().ok();
            assert_eq!(parsed.as_ref().map(|a| (a.host.as_str(), a.port)), expected, "{text}");
            if let Some(address) = parsed {
                assert_eq!(address.to_string().parse(), Ok(address));
            }
        };
        check("https://10.0.0.1:7000", Some(("10.0.0.1", 7000)));
        check("https://master", Some(("master", 6443)));
        check("https://master/", Some(("master", 6443)));
        check("https://[fd00::1]:6443", Some(("fd00::1", 6443)));
        for wrong in
            ["", "master", "master:6443", "http://master:6443", "https://", "https://m/x", "https://m:99999"]
        {
            check(wrong, None);
        }
    }
}
