//! How a machine becomes a node and stays one.
//!
//! [`join`] turns a join token into credentials: it finds a server whose authority has the key that the token
//! names, makes a key of its own, asks for certificates and keeps them in one directory. With credentials
//! there already it needs neither token nor server to begin. A [`Member`] speaks to whichever server answers,
//! and renews its certificates while it runs. A private key never leaves the machine, and the token is sent
//! only to a server that proved to be the right one.

mod address;
mod credentials;
mod dial;
mod error;
mod member;
mod pin;
mod request;
mod transport;

pub use address::{ServerAddress, ServerAddressError};
pub use error::JoinError;
pub use member::{Joining, Member, join, known_name, known_servers, leave};
