//! Readers and writers of the kinds that several crates use, compiled here.
//!
//! A generic function is compiled where it is first used, and crates share it only with those that they depend on: ten
//! crates that watch Pods had ten readers of Pods in the program. What this crate has compiled, they take from it.

use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Result, Value};

use crate::decode::{Decoded, decode};

type Compiled<K> = (fn(&[u8]) -> Result<Decoded<K>>, fn(&K) -> Result<Vec<u8>>, fn(K) -> Result<Value>);

macro_rules! compiled {
    ($($name:ident),*) => {
        #[used]
        static COMPILED: ($(Compiled<$name>,)*) =
            ($((decode::<$name>, serde_json::to_vec::<$name>, serde_json::to_value::<$name>),)*);
    };
}

compiled!(
    ConfigMap,
    EndpointSlice,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
    Secret,
    Service
);
