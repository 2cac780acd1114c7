//! Users of others: JSON web tokens of OpenID Connect providers, and tokens that a webhook knows.
//!
//! An AuthenticationConfiguration (`apiserver.config.k8s.io/v1`), or the classic `--oidc-*` flags, says which issuers are
//! trusted and how their claims become users. An issuer's keys are fetched from where its discovery document says, over
//! HTTPS and without following redirects, and kept until a token names a key that is not among them.
//!
//! A token chooses nothing: its issuer must be one of the file's, its key one of that issuer's, its algorithm one of that
//! key's. No issuer makes anybody a user whose name begins with `system:`.

mod classic;
mod configuration;
mod connection;
mod https;
mod issuer;
mod jwk;
mod jwt;
mod keys;
mod mapping;
mod reload;
mod verdict_cache;
pub mod webhook;

pub use classic::ClassicSettings;
pub use configuration::{AuthenticationSettings, ConfigurationError, check_kind, invalid};
pub use connection::WebhookConnection;
pub use issuer::Issuers;
pub use reload::{LOOK, follow, text};
pub use verdict_cache::VerdictCache;
