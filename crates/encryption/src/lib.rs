//! Encryption at rest: a store whose values lie encrypted in another one.
//!
//! An EncryptionConfiguration (`apiserver.config.k8s.io/v1`) says which resources are encrypted, and how. The first
//! provider of a resource writes, all of its providers read, so keys are exchanged by putting the new one first and
//! writing every object again. What lies in the store looks as upstream's does (`k8s:enc:aesgcm:v1:KEY:…`), with the
//! key of the store as what is authenticated beside it: a value that was moved to another key is not opened.
//!
//! Nothing here falls back to plain text: what cannot be sealed is not written, and what cannot be opened is an error
//! that names the key, never an object that is missing. Values are not changed by reading them.

mod cipher;
mod configuration;
mod envelope;
mod kms;
mod provider;
mod reload;
mod resources;
mod rules;
mod store;

pub use configuration::ConfigurationError;
pub use reload::follow;
pub use rules::Rules;
pub use store::{EncryptedStore, refuse_encrypted};

/// What every encrypted value starts with. JSON never does.
const PREFIX: &[u8] = b"k8s:enc:";
