//! Users whom a front proxy names in headers.
//!
//! They are believed over a verified certificate of the proxies' authority with an allowed common name, and over nothing
//! else. Such a certificate is never a user's itself, and what others write into these headers is never passed on.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use jiff::Timestamp;
use minik8s_api::RequestHeaderSettings;
use minik8s_auth::User;
use minik8s_auth::pki::{ClientAuthorities, Issued, Pki, PkiError, public_key_pin};
use minik8s_auth::user::{AUTHENTICATED, CertificateUser, CertificateUserError, UNAUTHENTICATED};
use rustls::pki_types::CertificateDer;

use crate::authenticator::Peer;
use crate::request::percent_decode;

/// What is never believed of a client, and never passed on.
const STANDARD: &str = "x-remote-";

/// Put into each request of a connection whose certificate is no user's. None: it is no front proxy's, either.
#[derive(Clone)]
pub struct FrontProxyPeer(Option<Arc<Result<CertificateUser, CertificateUserError>>>);

pub struct RequestHeader {
    settings: RequestHeaderSettings,
    authorities: ClientAuthorities,
}

impl RequestHeader {
    pub fn new(settings: RequestHeaderSettings, pki: &Pki) -> Result<Self, PkiError> {
        let authorities = ClientAuthorities::new(pki, &settings.authorities)?;
        Ok(RequestHeader { settings, authorities })
    }

    /// As what the certificates that a client showed count.
    pub fn peers(&self, chain: &[CertificateDer<'_>]) -> (Option<Peer>, Option<FrontProxyPeer>) {
        let Some(certificate) = chain.first() else { return (None, None) };
        let named = Arc::new(CertificateUser::read(certificate));
        let Issued { is_users, is_front_proxys } = self.authorities.issued(chain);
        let peer = is_users.then(|| Peer(named.clone()));
        let front_proxy = match is_front_proxys {
            true => Some(FrontProxyPeer(Some(named))),
            // A resumed session can outlive what its certificate was verified with.
            false => (!is_users).then_some(FrontProxyPeer(None)),
        };
        (peer, front_proxy)
    }

    pub fn is_allowed(&self, FrontProxyPeer(named): &FrontProxyPeer) -> bool {
        let Some(Ok(named)) = named.as_deref() else { return false };
        let names = &self.settings.allowed_names;
        named.at(Timestamp::now()).is_ok_and(|proxy| names.is_empty() || names.contains(&proxy.name))
    }

    /// Whom the headers name; None if nobody.
    pub fn user(&self, headers: &HeaderMap) -> Option<User> {
        let first = |names: &[HeaderName]| {
            let found = names.iter().filter_map(|name| headers.get(name)).find(|value| !value.is_empty())?;
            Some(text(found.as_bytes()))
        };
        let groups = self.settings.group_headers.iter().flat_map(|name| headers.get_all(name));
        let mut user = User {
            name: first(&self.settings.username_headers)?,
            uid: first(&self.settings.uid_headers).unwrap_or_default(),
            groups: groups.map(|value| text(value.as_bytes())).collect(),
            ..User::default()
        };
        for (name, value) in headers {
            let key =
                self.settings.extra_prefixes.iter().find_map(|prefix| name.as_str().strip_prefix(prefix));
            if let Some(key) = key {
                let values = user.extra.entry(percent_decode(key).into_owned()).or_default();
                values.push(text(value.as_bytes()));
            }
        }
        if !user.is_anonymous() && !user.in_group(UNAUTHENTICATED) {
            user.join(AUTHENTICATED);
        }
        Some(user)
    }

    fn says(&self, name: &HeaderName) -> bool {
        let RequestHeaderSettings { username_headers, uid_headers, group_headers, .. } = &self.settings;
        let mut listed = username_headers.iter().chain(uid_headers).chain(group_headers);
        listed.any(|own| own == name)
            || self.settings.extra_prefixes.iter().any(|prefix| name.as_str().starts_with(prefix))
    }
}

/// Takes away everything that could say whose request it is.
pub fn strip(headers: &mut HeaderMap, configured: Option<&RequestHeader>) {
    let says = |name: &HeaderName| {
        name.as_str().starts_with(STANDARD) || configured.is_some_and(|configured| configured.says(name))
    };
    let said: Vec<HeaderName> = headers.keys().filter(|name| says(name)).cloned().collect();
    for name in said {
        headers.remove(name);
    }
}

/// Whether every user with a certificate of the cluster could name any other.
pub fn believes_everybody(settings: &RequestHeaderSettings, pki: &Pki) -> bool {
    let own = pki.ca_pin();
    let is_own = |authority: &Vec<u8>| public_key_pin(authority).is_some_and(|pin| pin == own);
    settings.allowed_names.is_empty() && settings.authorities.iter().any(is_own)
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}
