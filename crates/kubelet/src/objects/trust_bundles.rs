//! The ClusterTrustBundles of the cluster, for pods that mount some of them.
//!
//! A volume may ask for all bundles of a signer, so there is one watch on all of them, shared by all such pods and gone
//! with the last. There are few, and nodes may read them all.

use std::collections::BTreeMap;

use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use kube::Api;
use kube::api::ListParams;
use minik8s_informer::{Informer, Lenient};

/// By name.
pub type TrustBundles = BTreeMap<String, TrustBundle>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustBundle {
    pub signer: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub pem: String,
}

/// What the API server has now.
pub async fn list(client: &kube::Client) -> Result<TrustBundles, kube::Error> {
    let all = Api::<Lenient<ClusterTrustBundle>>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(all.items.into_iter().map(Lenient::into_inner).map(bundle).collect())
}

fn bundle(object: ClusterTrustBundle) -> (String, TrustBundle) {
    let bundle = TrustBundle {
        signer: object.spec.signer_name.filter(|name| !name.is_empty()),
        labels: object.metadata.labels.unwrap_or_default(),
        pem: object.spec.trust_bundle,
    };
    (object.metadata.name.unwrap_or_default(), bundle)
}

/// What the watch has shown last; `None` before its first list.
pub fn last(informer: &Informer<ClusterTrustBundle>) -> Option<TrustBundles> {
    let all = || informer.list().iter().map(|object| bundle(ClusterTrustBundle::clone(object))).collect();
    informer.is_synced().then(all)
}
