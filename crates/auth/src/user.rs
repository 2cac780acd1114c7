//! Who makes a request.
//!
//! A [`User`] is what every authenticator yields and every authorizer reads. It never says how the user
//! proved who they are beyond the credential id in `extra`, and it holds no secret.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::pki::Subject;

pub const ANONYMOUS: &str = "system:anonymous";
/// Members may do everything, whatever the RBAC objects say: the way back in after a lock-out.
pub const MASTERS: &str = "system:masters";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const NODES: &str = "system:nodes";
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// Key in [`User::extra`] that names the credential, for audit logs and `kubectl auth whoami`.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

const NODE_PREFIX: &str = "system:node:";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Why a client certificate names nobody. All of these are a 401.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CertificateUserError {
    #[error("the client certificate is not valid X.509")]
    Malformed,
    #[error("the client certificate is not valid before {0}")]
    NotYetValid(Timestamp),
    #[error("the client certificate expired at {0}")]
    Expired(Timestamp),
    #[error("the client certificate's subject has no usable common name: {0}")]
    Subject(String),
}

impl User {
    pub fn anonymous() -> Self {
        User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
    }

    /// An authenticated user: `system:authenticated` is added to the groups.
    pub fn authenticated(name: &str, groups: &[&str]) -> Self {
        let mut user = User {
            name: name.to_owned(),
            groups: groups.iter().map(|&g| g.to_owned()).collect(),
            ..User::default()
        };
        user.join(AUTHENTICATED);
        user
    }

    /// The user of a certificate whose chain the TLS handshake has verified.
    pub fn from_certificate(der: &[u8], now: Timestamp) -> Result<Self, CertificateUserError> {
        CertificateUser::read(der)?.at(now).cloned()
    }

    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Adds a group unless the user is in it already.
    pub fn join(&mut self, group: &str) {
        if !self.in_group(group) {
            self.groups.push(group.to_owned());
        }
    }

    /// The node's name, if the user is a kubelet: `system:node:NAME` in the group `system:nodes`.
    pub fn node_name(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_PREFIX).filter(|_| self.in_group(NODES))
    }

    /// `(namespace, name)` if the user is a service account.
    pub fn service_account(&self) -> Option<(&str, &str)> {
        split_service_account_name(&self.name)
    }
}

/// Whom a certificate names, and when: CN is the name, each O a group. Read once for a connection of many requests.
#[derive(Debug)]
pub struct CertificateUser {
    user: User,
    /// Both in seconds since 1970.
    from: i64,
    until: i64,
}

impl CertificateUser {
    pub fn read(der: &[u8]) -> Result<Self, CertificateUserError> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateUserError::Malformed)?;
        let subject = Subject::read(certificate.subject()).map_err(CertificateUserError::Subject)?;
        let mut user = User { name: subject.common_name, groups: subject.organizations, ..User::default() };
        user.join(AUTHENTICATED);
        let fingerprint: String = Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect();
        user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={fingerprint}")]);
        let validity = certificate.validity();
        let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        Ok(CertificateUser { user, from, until })
    }

    /// When the certificate ends.
    pub fn until(&self) -> Timestamp {
        timestamp(self.until)
    }

    /// The dates are checked for each request because a connection, or a resumed session, can outlive the
    /// certificate.
    pub fn at(&self, now: Timestamp) -> Result<&User, CertificateUserError> {
        if now.as_second() < self.from {
            return Err(CertificateUserError::NotYetValid(timestamp(self.from)));
        }
        if now.as_second() > self.until {
            return Err(CertificateUserError::Expired(timestamp(self.until)));
        }
        Ok(&self.user)
    }
}

/// The user name of a service account.
pub fn service_account_user_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups that every service account of a namespace is in, beside `system:authenticated`.
pub fn service_account_groups(namespace: &str) -> [String; 2] {
    [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// `(namespace, name)` of a service account's user name.
pub fn split_service_account_name(user_name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user_name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// Certificate dates lie within the years that a [`Timestamp`] can hold; anything else is clamped.
fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_names() {
        let check = |name: &str, expected| assert_eq!(split_service_account_name(name), expected, "{name}");
        check("system:serviceaccount:default:builder", Some(("default", "builder")));
        check("system:serviceaccount:default:", None);
        check("system:serviceaccount::x", None);
        check("system:serviceaccount:a:b:c", None);
        check("system:serviceaccount:a", None);
        check("alice", None);
    }

    #[test]
    fn node_needs_name_and_group() {
        let check = |user: User, expected| assert_eq!(user.node_name(), expected, "{}", user.name);
        check(User::authenticated("system:node:a", &[NODES]), Some("a"));
        check(User::authenticated("system:node:a", &[]), None);
        check(User::authenticated("a", &[NODES]), None);
        check(User::authenticated("system:node:", &[NODES]), Some(""));
    }

    #[test]
    fn authenticated_is_added_once() {
        assert_eq!(User::authenticated("a", &[AUTHENTICATED, "x"]).groups, [AUTHENTICATED, "x"]);
        assert_eq!(User::anonymous().groups, [UNAUTHENTICATED]);
        assert!(User::anonymous().is_anonymous());
    }

    proptest::proptest! {
        #[test]
        fn hostile_certificates_are_errors(der in proptest::collection::vec(0u8.., 0..400)) {
            let _ = User::from_certificate(&der, Timestamp::UNIX_EPOCH);
        }
    }
}
