//! Acting as someone else: the `Impersonate-*` headers.
//!
//! This reads the headers, says what the caller must be allowed to do, and whom the request is then from.
//! Asking the authorizer and writing the audit log is the API server's work.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::user::{
    ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, service_account_groups, split_service_account_name,
};
use crate::{Attributes, User};

const EXTRA_PREFIX: &str = "impersonate-extra-";
const GROUP: &str = "authentication.k8s.io";

/// Whom the headers name, not yet allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonation {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Headers that make no sense: a 400.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ImpersonationError {
    #[error("the header {0} needs the header Impersonate-User beside it")]
    WithoutUser(String),
    #[error("the header {0} occurs more than once")]
    Repeated(&'static str),
    #[error("the header {0:?} is not percent-encoded UTF-8")]
    Encoding(String),
}

impl Impersonation {
    /// Reads a request's headers; names in any case. `None` if none of them impersonates.
    pub fn from_headers<'h>(
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    ) -> Result<Option<Self>, ImpersonationError> {
        let mut wanted = Impersonation::default();
        let mut any: Option<String> = None;
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            match name.as_str() {
                "impersonate-user" => set_once(&mut wanted.user, value, "Impersonate-User")?,
                "impersonate-uid" => set_once(&mut wanted.uid, value, "Impersonate-Uid")?,
                "impersonate-group" => wanted.groups.push(value.to_owned()),
                other => {
                    let Some(key) = other.strip_prefix(EXTRA_PREFIX) else { continue };
                    let key = percent_decode(key).ok_or(ImpersonationError::Encoding(name.clone()))?;
                    wanted.extra.entry(key.to_lowercase()).or_default().push(value.to_owned());
                }
            }
            any = Some(name);
        }
        match any {
            Some(header) if wanted.user.is_empty() => Err(ImpersonationError::WithoutUser(header)),
            Some(_) => Ok(Some(wanted)),
            None => Ok(None),
        }
    }

    /// What the caller must be allowed, each of it, before the request goes on as [`Self::into_user`].
    pub fn checks(&self) -> Vec<Attributes<'_>> {
        let mut checks = vec![match split_service_account_name(&self.user) {
            Some((namespace, name)) => {
                Attributes::resource("impersonate", "", "serviceaccounts").in_namespace(namespace).named(name)
            }
            None => Attributes::resource("impersonate", "", "users").named(&self.user),
        }];
        checks.extend(self.groups.iter().map(|g| Attributes::resource("impersonate", "", "groups").named(g)));
        for (key, values) in &self.extra {
            let extra = Attributes::resource("impersonate", GROUP, "userextras").subresource(key);
            checks.extend(values.iter().map(|value| extra.named(value)));
        }
        if !self.uid.is_empty() {
            checks.push(Attributes::resource("impersonate", GROUP, "uids").named(&self.uid));
        }
        checks
    }

    /// The user that the request is from, once allowed. The caller's own groups are not part of it.
    pub fn into_user(self) -> User {
        let mut groups = self.groups;
        if groups.is_empty()
            && let Some((namespace, _)) = split_service_account_name(&self.user)
        {
            groups = service_account_groups(namespace).into();
        }
        let mut user = User { name: self.user, uid: self.uid, groups, extra: self.extra };
        if user.name == ANONYMOUS {
            user.join(UNAUTHENTICATED);
        } else if !user.in_group(UNAUTHENTICATED) {
            user.join(AUTHENTICATED);
        }
        user
    }
}

fn set_once(field: &mut String, value: &str, name: &'static str) -> Result<(), ImpersonationError> {
    if !field.is_empty() {
        return Err(ImpersonationError::Repeated(name));
    }
    value.clone_into(field);
    Ok(())
}

/// Keys of extras may hold characters that a header name cannot, such as `/`.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> Result<Option<Impersonation>, ImpersonationError> {
        Impersonation::from_headers(headers.iter().copied())
    }

    #[test]
    fn checks_and_users() {
        let check = |headers: &[(&str, &str)], checks: &[&str], name: &str, groups: &[&str]| {
            let wanted = read(headers).unwrap().unwrap();
            let found: Vec<String> = wanted
                .checks()
                .iter()
                .map(|c| {
                    assert_eq!(c.verb, "impersonate");
                    [c.api_group, c.resource, c.subresource, c.namespace, c.name].join("|")
                })
                .collect();
            assert_eq!(found, checks);
            let user = wanted.into_user();
            assert_eq!(user.name, name);
            assert_eq!(user.groups, groups);
        };
        check(&[("Impersonate-User", "jane")], &["|users|||jane"], "jane", &[AUTHENTICATED]);
        check(
            &[
                ("impersonate-user", "jane"),
                ("Impersonate-Group", "a"),
                ("impersonate-group", "b"),
                ("Impersonate-Uid", "7"),
            ],
            &["|users|||jane", "|groups|||a", "|groups|||b", "authentication.k8s.io|uids|||7"],
            "jane",
            &["a", "b", AUTHENTICATED],
        );
        check(
            &[("Impersonate-User", "system:serviceaccount:ns:bot")],
            &["|serviceaccounts||ns|bot"],
            "system:serviceaccount:ns:bot",
            &["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED],
        );
        check(
            &[("Impersonate-User", "system:serviceaccount:ns:bot"), ("Impersonate-Group", "x")],
            &["|serviceaccounts||ns|bot", "|groups|||x"],
            "system:serviceaccount:ns:bot",
            &["x", AUTHENTICATED],
        );
        check(
            &[("Impersonate-User", ANONYMOUS)],
            &["|users|||system:anonymous"],
            ANONYMOUS,
            &[UNAUTHENTICATED],
        );
        check(
            &[
                ("Impersonate-User", "j"),
                ("Impersonate-Extra-Acme.com%2fProject", "p"),
                ("Impersonate-Extra-scopes", "s"),
            ],
            &[
                "|users|||j",
                "authentication.k8s.io|userextras|acme.com/project||p",
                "authentication.k8s.io|userextras|scopes||s",
            ],
            "j",
            &[AUTHENTICATED],
        );
    }

    #[test]
    fn nobody_or_nonsense() {
        assert_eq!(read(&[("accept", "*/*"), ("x-impersonate-user", "a")]), Ok(None));
        let check = |headers: &[(&str, &str)], expected| assert_eq!(read(headers).unwrap_err(), expected);
        check(&[("Impersonate-Group", "a")], ImpersonationError::WithoutUser("impersonate-group".into()));
        check(&[("Impersonate-User", "")], ImpersonationError::WithoutUser("impersonate-user".into()));
        check(
            &[("Impersonate-User", "a"), ("Impersonate-User", "b")],
            ImpersonationError::Repeated("Impersonate-User"),
        );
        for key in ["%", "%2", "%zz", "%ff"] {
            let header = format!("impersonate-extra-{key}");
            check(&[(&header, "v")], ImpersonationError::Encoding(header.clone()));
        }
    }

    #[test]
    fn extras_reach_the_user() {
        let headers = [("Impersonate-User", "j"), ("Impersonate-Extra-a", "1"), ("Impersonate-Extra-A", "2")];
        let user = read(&headers).unwrap().unwrap().into_user();
        assert_eq!(user.extra, BTreeMap::from([("a".to_owned(), vec!["1".to_owned(), "2".to_owned()])]));
    }
}
