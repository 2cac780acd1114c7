//! Is everything that was acknowledged there, once, and in the order that clients saw? Those who write and watch, and
//! the judge of what they were told.

pub mod history;
pub mod registers;
pub mod witness;
pub mod writer;

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::sync::watch;

use super::control_plane::Credentials;

/// What they write to.
pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server that can be reached, by those who wait for it. The number tells restarts apart.
pub type Reachable = watch::Receiver<Option<(u32, Credentials)>>;

pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a version")
}

/// `metadata.name` to the whole object.
pub fn by_name(list: &Value) -> BTreeMap<String, Value> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .map(|item| (item["metadata"]["name"].as_str().unwrap_or_default().to_owned(), item.clone()))
        .collect()
}
