//! What every control loop needs, written once.
//!
//! A [`Controller`] says which kinds it watches, how their objects lead to keys, what it looks at
//! (`observe`) and what should be done about it (`plan`, a pure function). This crate owns everything with
//! effects: watches and the [`Caches`] they feed (one per kind, shared by all controllers), the
//! deduplicating [`Queue`] of keys, back-off, the execution of a [`Plan`], events, leader gating and the
//! graceful stop.
//!
//! Writes are shown to the caches as soon as the API has answered ("write-through"), so that a controller
//! never plans on a state older than its own last write. See [`cache`].
//!
//! It holds no policy, and knows kinds by name only where scheduler and controllers must agree
//! ([`placement`]).

mod action;
pub mod cache;
mod caches;
mod controller;
mod execute;
mod glance;
mod key;
mod kind;
mod leader;
mod manager;
pub mod placement;
mod plan;
mod queue;
mod recorder;
mod reflect;
mod selector;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod watches;

pub use action::{Action, Propagation, Target, Told};
pub use cache::{Cache, Cached, MetaOnly};
pub use caches::{AnyCache, Caches, MetaChange};
pub use controller::Controller;
pub use execute::{Error, Executor};
pub use key::{Key, controller_of, is_controlled_by, key_of, owner_reference};
pub use kind::{Kind, Object, Scope};
pub use leader::{Gate, LeaderConfig, Leadership, NotLeading, elect};
pub use manager::{Manager, Settings};
pub use plan::Plan;
pub use queue::{Backoff, Queue};
pub use recorder::{Notice, NoticeType, Recorder, Regarding};
pub use selector::Selector;
pub use watches::Watches;
