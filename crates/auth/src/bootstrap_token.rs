//! Tokens with which a machine that is nobody yet may ask to become a node.
//!
//! A token `ID.SECRET` is kept as the Secret `bootstrap-token-ID` in `kube-system`, as upstream keeps it, so
//! that `kubectl` and `kubeadm` users find it where they expect it. A [`JoinToken`] adds the hash of the
//! authority's public key, so that whoever holds it also knows whom to trust. A token makes its bearer a
//! member of `system:bootstrappers` and nothing more. Nothing here reads the store or asks the clock.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::User;

pub const NAMESPACE: &str = "kube-system";
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
pub const BOOTSTRAPPERS: &str = "system:bootstrappers";

const USER_PREFIX: &str = "system:bootstrap:";
const SECRET_PREFIX: &str = "bootstrap-token-";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// `ID.SECRET`; the id is public, the secret is not.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    pub id: String,
    secret: String,
}

/// Why a token is refused. The bearer learns none of it; logs do.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BootstrapTokenError {
    #[error("the secret is not of the type {SECRET_TYPE}")]
    Type,
    #[error("the secret is being deleted")]
    Deleted,
    #[error("the token's id or secret is another one")]
    Mismatch,
    #[error("the token's expiration is not a time: {0:?}")]
    Expiration(String),
    #[error("the token expired at {0}")]
    Expired(Timestamp),
    #[error("the token is not for authentication")]
    Usage,
    #[error("{0:?} is not a group that a token may give: it must begin with {BOOTSTRAPPERS}:")]
    Group(String),
}

impl BootstrapToken {
    pub fn generate() -> Self {
        let text = |length: usize| -> String {
            (0..length).map(|_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())])).collect()
        };
        BootstrapToken { id: text(ID_LENGTH), secret: text(SECRET_LENGTH) }
    }

    /// `None` if the text cannot be such a token: most bearer tokens are of other kinds.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let fits = |part: &str, length| part.len() == length && part.bytes().all(|b| ALPHABET.contains(&b));
        (fits(id, ID_LENGTH) && fits(secret, SECRET_LENGTH))
            .then(|| BootstrapToken { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// The token that this Secret keeps; `None` if it keeps none.
    pub fn from_secret(secret: &Value) -> Option<Self> {
        let kept = Kept::read(secret);
        BootstrapToken::parse(&format!("{}.{}", kept.text("token-id"), kept.text("token-secret")))
    }

    /// The text that is sent as a bearer token.
    pub fn reveal(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// The name of the Secret that keeps it.
    pub fn secret_name(&self) -> String {
        format!("{SECRET_PREFIX}{}", self.id)
    }

    /// That Secret. Without `expiration` the token is good until somebody revokes it.
    pub fn to_secret(&self, description: &str, expiration: Option<Timestamp>) -> Value {
        let mut data = json!({
            "token-id": self.id, "token-secret": self.secret, "description": description,
            "usage-bootstrap-authentication": "true",
        });
        if let Some(expiration) = expiration {
            data["expiration"] = expiration.to_string().into();
        }
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
            "metadata": {"name": self.secret_name(), "namespace": NAMESPACE}, "stringData": data,
        })
    }

    /// Who bears this token, if the stored Secret of its name says that it is good now.
    pub fn user(&self, secret: &Value, now: Timestamp) -> Result<User, BootstrapTokenError> {
        if secret["type"] != SECRET_TYPE {
            return Err(BootstrapTokenError::Type);
        }
        if !secret["metadata"]["deletionTimestamp"].is_null() {
            return Err(BootstrapTokenError::Deleted);
        }
        let kept = Kept::read(secret);
        // Hashes are compared, so that the time it takes tells nothing about the secret.
        let hash = |text: &str| Sha256::digest(text.as_bytes());
        if kept.text("token-id") != self.id || hash(kept.text("token-secret")) != hash(&self.secret) {
            return Err(BootstrapTokenError::Mismatch);
        }
        if let Some(end) = kept.expiration()?.filter(|end| *end <= now) {
            return Err(BootstrapTokenError::Expired(end));
        }
        if kept.text("usage-bootstrap-authentication") != "true" {
            return Err(BootstrapTokenError::Usage);
        }
        let mut user = User::authenticated(&format!("{USER_PREFIX}{}", self.id), &[BOOTSTRAPPERS]);
        for group in kept.text("auth-extra-groups").split(',').map(str::trim).filter(|g| !g.is_empty()) {
            if !group.strip_prefix(BOOTSTRAPPERS).is_some_and(|rest| rest.starts_with(':') && rest.len() > 1)
            {
                return Err(BootstrapTokenError::Group(group.to_owned()));
            }
            user.join(group);
        }
        Ok(user)
    }
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BootstrapToken").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What `minik8s token list` shows of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenInfo {
    pub id: String,
    pub description: String,
    pub expiration: Option<Timestamp>,
}

impl TokenInfo {
    /// `None` if the Secret keeps no token.
    pub fn read(secret: &Value) -> Option<Self> {
        let kept = Kept::read(secret);
        let is_token = secret["type"] == SECRET_TYPE && !kept.text("token-id").is_empty();
        is_token.then(|| TokenInfo {
            id: kept.text("token-id").to_owned(),
            description: kept.text("description").to_owned(),
            expiration: kept.expiration().ok().flatten(),
        })
    }
}

/// The decoded fields of a token's Secret.
struct Kept(BTreeMap<String, String>);

impl Kept {
    fn read(secret: &Value) -> Self {
        let decoded = |value: &Value| {
            let bytes = STANDARD.decode(value.as_str()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        let fields = secret["data"].as_object().into_iter().flatten();
        Kept(fields.filter_map(|(key, value)| Some((key.clone(), decoded(value)?))).collect())
    }

    fn text(&self, field: &str) -> &str {
        self.0.get(field).map(String::as_str).unwrap_or_default()
    }

    fn expiration(&self) -> Result<Option<Timestamp>, BootstrapTokenError> {
        match self.text("expiration") {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| BootstrapTokenError::Expiration(text.to_owned())),
        }
    }
}

/// `ID.SECRET.HASH`: a token, and the SHA-256 of the public key of the authority that its bearer must meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinToken {
    pub token: BootstrapToken,
    /// Lower-case hexadecimal digits.
    pub pin: String,
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "a join token looks like ID.SECRET.HASH (6, 16 and 64 characters); copy the whole line that \
     `minik8s token create` prints, or the content of join-token in the server's data dir"
)]
pub struct JoinTokenError;

impl FromStr for JoinToken {
    type Err = JoinTokenError;

    fn from_str(text: &str) -> Result<Self, JoinTokenError> {
        let (token, pin) = text.trim().rsplit_once('.').ok_or(JoinTokenError)?;
        let is_hash = pin.len() == 64 && pin.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match BootstrapToken::parse(token) {
            Some(token) if is_hash => Ok(JoinToken { token, pin: pin.to_owned() }),
            _ => Err(JoinTokenError),
        }
    }
}

impl JoinToken {
    pub fn reveal(&self) -> String {
        format!("{}.{}", self.token.reveal(), self.pin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(change: &[(&str, &str)]) -> Value {
        let mut data: BTreeMap<&str, String> = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
        ]
        .map(|(key, value)| (key, STANDARD.encode(value)))
        .into();
        data.extend(change.iter().map(|(key, value)| (*key, STANDARD.encode(value))));
        json!({"type": SECRET_TYPE, "metadata": {"name": "bootstrap-token-abcdef"}, "data": data})
    }

    fn now() -> Timestamp {
        "2030-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn what_looks_like_a_token() {
        let check = |text: &str, ok: bool| assert_eq!(BootstrapToken::parse(text).is_some(), ok, "{text}");
        check("abcdef.0123456789abcdef", true);
        check(&BootstrapToken::generate().reveal(), true);
        check("ABCDEF.0123456789abcdef", false);
        check("abcdef.0123456789abcde", false);
        check("abcdef.0123456789abcdef.x", false);
        check("abcdef", false);
        check("", false);
    }

    #[test]
    fn who_bears_it() {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
        let user = token.user(&stored(&[]), now()).unwrap();
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert_eq!(user.groups, ["system:bootstrappers", "system:authenticated"]);
        let extra = stored(&[("auth-extra-groups", "system:bootstrappers:lab, system:bootstrappers:x")]);
        assert!(token.user(&extra, now()).unwrap().in_group("system:bootstrappers:lab"));

        let check =
            |secret: Value, why: BootstrapTokenError| assert_eq!(token.user(&secret, now()), Err(why));
        check(stored(&[("token-secret", "0123456789abcdee")]), BootstrapTokenError::Mismatch);
        check(stored(&[("token-id", "abcdee")]), BootstrapTokenError::Mismatch);
        check(stored(&[("usage-bootstrap-authentication", "false")]), BootstrapTokenError::Usage);
        check(
            stored(&[("expiration", "2029-12-31T00:00:00Z")]),
            BootstrapTokenError::Expired("2029-12-31T00:00:00Z".parse().unwrap()),
        );
        check(stored(&[("expiration", "soon")]), BootstrapTokenError::Expiration("soon".to_owned()));
        for group in ["system:masters", "system:bootstrappers", "system:bootstrappers:", "x"] {
            let given = stored(&[("auth-extra-groups", group)]);
            check(given, BootstrapTokenError::Group(group.to_owned()));
        }
        let mut opaque = stored(&[]);
        opaque["type"] = "Opaque".into();
        check(opaque, BootstrapTokenError::Type);
        assert!(token.user(&stored(&[("expiration", "2030-01-02T00:00:00Z")]), now()).is_ok());
    }

    #[test]
    fn join_tokens_name_their_authority() {
        let pin = "0f".repeat(32);
        let text = format!("abcdef.0123456789abcdef.{pin}");
        let token: JoinToken = format!(" {text}\n").parse().unwrap();
        assert_eq!((token.reveal(), token.pin), (text, pin));
        for wrong in ["", "abcdef.0123456789abcdef", "abcdef.0123456789abcdef.00", "a.b.c"] {
            assert_eq!(wrong.parse::<JoinToken>(), Err(JoinTokenError), "{wrong}");
        }
    }

    #[test]
    fn secrets_do_not_show_in_logs() {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
        assert!(!format!("{token:?}").contains("0123"));
    }
}
