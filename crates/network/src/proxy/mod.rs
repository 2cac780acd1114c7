//! The service proxy: `(services, endpoint slices, node)` → [`Routes`] → [`Ruleset`] → a transaction of nft.
//!
//! Everything down to the text of the transaction is pure; [`Nft`] alone runs something.

mod conntrack;
mod diff;
mod endpoints;
mod layout;
mod nft;
mod plan;
mod routes;
mod ruleset;

#[cfg(test)]
mod tests;

pub use conntrack::{StaleFlow, forget_flows, stale_flows};
pub use diff::{Change, diff};
pub use layout::ruleset;
pub use nft::{Nft, NftError};
pub use plan::plan;
pub use routes::{Balance, Frontend, Pick, Protocol, Route, Routes};
pub use ruleset::{Chain, Map, Ruleset};
