//! The service proxy: `(services, endpoint slices, node)` → [`Routes`] → [`Ruleset`] → a transaction of nft.
//!
//! Everything down to the text of the transaction is pure; [`Nft`] alone runs something.

mod book;
mod conntrack;
mod diff;
mod endpoints;
mod key_types;
mod layout;
mod listing;
mod nft;
mod place;
mod plan;
mod routes;
mod ruleset;
mod table;

#[cfg(test)]
mod hint_tests;
#[cfg(test)]
mod tests;

pub use book::Book;
pub use conntrack::{StaleFlow, forget_flows, forget_flows_in, stale_flows};
pub use diff::{Change, diff};
pub use layout::ruleset;
pub use listing::{Listing, stale_flows_between};
pub use nft::{Nft, NftError};
pub use place::Place;
pub use plan::{plan, plan_service};
pub use routes::{Balance, Frontend, Pick, Protocol, Route, RouteChanges, Routes};
pub use ruleset::{Chain, Map, Ruleset, nft_family};
pub use table::Table;
