//! What every control loop needs, written once, on top of what [`minik8s_informer`] knows of objects.
//!
//! A [`Controller`] says which kinds it watches, how their objects lead to keys, what it looks at
//! (`observe`) and what should be done about it (`plan`, a pure function). This crate owns everything with
//! effects: what wakes a controller, the deduplicating [`Queue`] of keys, the execution of a [`Plan`], leader gating, the
//! [`Supervisor`] of tasks that must live, and the graceful stop.
//!
//! Writes are shown to the caches as soon as the API has answered ("write-through"), so that a controller
//! never plans on a state older than its own last write. See [`cache`].
//!
//! It holds no policy, and knows kinds by name only where scheduler and controllers must agree
//! ([`placement`]).

mod action;
mod controller;
mod discovery;
mod execute;
mod leader;
mod manager;
pub mod placement;
mod plan;
mod queue;
mod supervisor;
pub mod testing;
mod watches;

pub use action::{Action, OutcomeEvents, Propagation, Target};
pub use controller::Controller;
pub use discovery::{Catalog, is_event};
pub use execute::{Error, Executor};
pub use leader::{Gate, LeaderConfig, Leadership, NotLeading, elect};
pub use manager::{Manager, Settings};
pub use minik8s_informer::{
    AnyCache, Backoff, Cache, Cached, Caches, EventRecord, EventType, Key, Kind, ListOptions, MetaChange,
    MetaOnly, Object, Recorder, Regarding, Retries, Scope, Selector, Unreadable, cache, controller_of,
    is_controlled_by, key_of, owner_reference,
};
pub use plan::Plan;
pub use queue::Queue;
pub use supervisor::{Ended, Supervisor, TaskError, panic_message};
pub use watches::Watches;
