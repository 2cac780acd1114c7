//! NetworkPolicies: nodes enforce them, and are shown what policies ask about pods.

use minik8s_api::{Extension, Resource, Strategy};
use minik8s_feature::ServerFeature;
use minik8s_meta::pod_address::PodAddress;
use serde_json::Value;

pub struct NetworkPolicies;

impl ServerFeature for NetworkPolicies {
    fn name(&self) -> &'static str {
        "network-policies"
    }

    fn extension(&self) -> Extension {
        Extension { kinds: vec![pod_addresses()], ..Extension::default() }
    }
}

/// The stored pods, seen otherwise.
fn pod_addresses() -> Resource {
    Resource::of::<PodAddress>(PodAddresses).stored_as("", "v1").only(&["get", "list", "watch"])
}

struct PodAddresses;

impl Strategy for PodAddresses {
    fn from_stored(&self, object: &mut Value) {
        *object = PodAddress::of(object);
    }
}
