//! How servers and agents know the objects of a cluster: watched once per process, shared by all who ask.
//!
//! [`Caches`] hands out one [`Cache`] per kind, kept current by a list and a watch; [`Informer`] is one that ends with its
//! last holder and may be of some objects only. Who wants to hear of changes listens or takes [`Changes`]. A [`Checkpoint`]
//! lets an agent begin with what its former run knew while no server answers. Beside them is what goes with objects: keys,
//! kinds, selectors, the [`Recorder`] of events, and the [`Backoff`] of everything that is tried again.
//!
//! The API stores what its schema allows, which is more than what typed readers accept: upstream's clients fill a
//! missing field with its zero value, ours refuse the object, and with it the list that it stands in. So no watch
//! reads objects strictly: [`decode`] leaves out the parts that cannot be read and says which.
//!
//! It never fails a list because of one object, never changes what can be read, and decides nothing about objects.

mod access;
pub mod cache;
mod caches;
mod changes;
mod checkpoint;
mod compiled;
mod decode;
mod key;
mod kind;
mod lenient;
mod object_header;
mod position;
mod recorder;
mod reflect;
mod reported;
mod selector;
mod unreadable;

pub use access::ApiAccess;
pub use cache::{Cache, Cached, MetaOnly};
pub use caches::{AnyCache, Caches, Informer, ListOptions, MetaChange};
pub use changes::{Change, Changes};
pub use checkpoint::Checkpoint;
pub use decode::{Decoded, Ignored, decode};
pub use key::{Key, controller_of, is_controlled_by, key_of, owner_reference};
pub use kind::{Kind, Object, Scope};
pub use lenient::Lenient;
pub use minik8s_meta::{Backoff, Retries};
pub use recorder::{EventRecord, EventType, Recorder, Regarding};
pub use reported::Reported;
pub use selector::Selector;
pub use unreadable::Unreadable;
