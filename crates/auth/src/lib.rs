//! Who someone is, and what they may do.
//!
//! Authentication: [`pki`] (certificates), [`service_account_token`], [`bootstrap_token`],
//! [`token_file`], all yielding a
//! [`User`]; [`impersonation`] lets one user act as another. Authorization: [`rbac`] and [`node`] answer
//! [`Attributes`] with a [`Decision`].
//!
//! Nothing here knows HTTP, reads the store or asks the clock: the API server feeds objects in and passes
//! the time. Only [`pki`] touches files, in the directory that it is given.

mod attributes;
pub mod bootstrap_token;
pub mod impersonation;
pub mod node;
pub mod pki;
pub mod rbac;
pub mod service_account_token;
pub mod token_file;
pub mod user;

pub use attributes::{Attributes, Decision};
pub use user::User;
