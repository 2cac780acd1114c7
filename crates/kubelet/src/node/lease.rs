//! The node's lease: the cheap heartbeat.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::api::{Api, Patch, PatchParams, PostParams};
use minik8s_informer::Lenient;
use serde_json::json;

use crate::Config;

const NAMESPACE: &str = "kube-node-lease";
/// A lease outlives this many missed heartbeats.
const HEARTBEATS: u32 = 4;

pub async fn renew_lease(config: &Config, client: &kube::Client, node_uid: &str) -> Result<(), kube::Error> {
    let api: Api<Lenient<Lease>> = Api::namespaced(client.clone(), NAMESPACE);
    let name = &config.node_name;
    let now = MicroTime(Timestamp::now());
    let seconds = (config.heartbeat * HEARTBEATS).as_secs().max(1);
    let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
    let spec = json!({"holderIdentity": name, "renewTime": now, "leaseDurationSeconds": seconds});
    let patch = json!({ "spec": spec });
    match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(error)) if error.code == 404 => {}
        other => return other.map(drop),
    }
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.clone(),
                uid: node_uid.to_owned(),
                ..Default::default()
            }]),
            ..Default::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.clone()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(now),
            ..Default::default()
        }),
    };
    let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    api.create(&PostParams::default(), &lease).await.map(drop)
}
