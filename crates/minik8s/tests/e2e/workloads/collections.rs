//! Deleting many at once.

use kube::api::{DeleteParams, ListParams};

use super::cluster::{Cluster, Namespaced, eventually};

/// Deletes by label selector and waits until all are gone.
pub async fn delete_all<K: Namespaced>(cluster: &Cluster, selector: &str) {
    let matching = ListParams::default().labels(selector);
    cluster.api::<K>().delete_collection(&DeleteParams::background(), &matching).await.unwrap();
    eventually("all are gone", async || match cluster.list::<K>(selector).await.len() {
        0 => Ok(()),
        left => Err(format!("{left} left")),
    })
    .await;
}
