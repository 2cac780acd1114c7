//! Keeps the files of PrometheusRules in their ConfigMap, and has Prometheus read them: while this server leads, and only
//! where `minik8s monitoring enable` has made the ConfigMap.
//!
//! It never starts or restarts the engine: what it has measured, and how long alerts have been pending, stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use minik8s_informer::{Backoff, Caches, ListOptions};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{CONFIG_MAP, file};
use crate::install::NAMESPACE;
use crate::monitors::PrometheusRule;

/// Several changes at once become one.
const SETTLE: Duration = Duration::from_millis(300);
/// After rules that could not be written.
const RETRY: Backoff = Backoff::millis(1_000, 30_000);
/// Between requests to read files that the node may not have brought into the pod yet.
const AGAIN: Duration = Duration::from_secs(5);
/// After so long something else is wrong, and is told.
const LONGEST: Duration = Duration::from_secs(120);
const ENGINE: &str = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy";

pub async fn follow(
    client: Client,
    caches: Arc<Caches>,
    mut leads: watch::Receiver<bool>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = until(&mut leads, true) => {}
            () = stop.cancelled() => return,
        }
        tokio::select! {
            () = while_leading(&client, &caches) => {}
            () = until(&mut leads, false) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Where nobody says any more who leads, it stays as it is: a server alone leads for ever.
async fn until(leads: &mut watch::Receiver<bool>, wanted: bool) {
    if leads.wait_for(|leads| *leads == wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn while_leading(client: &Client, caches: &Caches) {
    let rules = caches.informer::<PrometheusRule>(ListOptions::default());
    let named = ListOptions::fields(format!("metadata.name={CONFIG_MAP}")).within(NAMESPACE);
    let map = caches.informer::<ConfigMap>(named);
    let changed = Arc::new(Notify::new());
    let of_rules = changed.clone();
    rules.listen(Box::new(move |_, _| of_rules.notify_one()));
    let of_map = changed.clone();
    map.listen(Box::new(move |_, _| of_map.notify_one()));
    // Before all are listed nothing is known to be gone.
    rules.wait_synced().await;
    map.wait_synced().await;
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    let mut retries = RETRY.retries();
    loop {
        // What comes within a moment belongs together.
        while timeout(SETTLE, changed.notified()).await.is_ok() {}
        let known = rules.list();
        match sync(client, &config_maps, file::files(known.iter().map(AsRef::as_ref))).await {
            Ok(()) => {
                retries.succeeded();
                changed.notified().await;
            }
            Err(error) => {
                tracing::warn!(%error, "the rules of PrometheusRules are not where the engine reads them; trying again");
                sleep(retries.failed()).await;
            }
        }
    }
}

/// Writes the files, if they are not there, and waits until the engine has read them.
async fn sync(
    client: &Client,
    config_maps: &Api<ConfigMap>,
    files: BTreeMap<String, String>,
) -> kube::Result<()> {
    let Some(found) = config_maps.get_opt(CONFIG_MAP).await? else { return Ok(()) };
    let old = found.data.unwrap_or_default();
    if old == files {
        return Ok(());
    }
    let mut data: BTreeMap<String, Value> =
        files.iter().map(|(name, text)| (name.clone(), text.clone().into())).collect();
    for name in old.into_keys() {
        data.entry(name).or_insert(Value::Null);
    }
    let patch = Patch::Merge(json!({"data": data}));
    config_maps.patch(CONFIG_MAP, &PatchParams::default(), &patch).await?;
    if is_prometheus(client).await {
        reload(client, &files).await;
    }
    Ok(())
}

/// VictoriaMetrics' vmalert looks for new files by itself.
async fn is_prometheus(client: &Client) -> bool {
    ask(client, "GET", "/api/v1/status/flags").await.is_ok()
}

/// The node brings files into the pod within seconds: until the engine tells of these it is asked to read them.
async fn reload(client: &Client, files: &BTreeMap<String, String>) {
    let wanted: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    let begun = Instant::now();
    let mut problem = String::new();
    while begun.elapsed() < LONGEST {
        if let Err(error) = ask(client, "POST", "/-/reload").await {
            problem = error;
        }
        match ask(client, "GET", "/api/v1/rules").await {
            Ok(told) if read_files(&told) == wanted => return,
            Ok(_) => {}
            Err(error) => problem = error,
        }
        sleep(AGAIN).await;
    }
    tracing::warn!(problem, "Prometheus has not read the rules of PrometheusRules");
}

/// The files of ours that an engine has read, as its page of rules names them. Pure.
fn read_files(told: &str) -> BTreeSet<&str> {
    let mut files = BTreeSet::new();
    for part in told.split("/etc/user-rules/").skip(1) {
        files.extend(part.split('"').next());
    }
    files
}

async fn ask(client: &Client, method: &str, path: &str) -> Result<String, String> {
    let request = Request::builder().method(method).uri(format!("{ENGINE}{path}"));
    let request = request.body(Vec::new()).map_err(|error| error.to_string())?;
    let answer = timeout(AGAIN, client.request_text(request)).await;
    answer.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_an_engine_has_read_are_known_by_their_names() {
        let told = r#"{"data":{"groups":[{"name":"g","file":"/etc/user-rules/a.b.12.yml"},
            {"name":"h","file":"/etc/rules/alerts.yml"},{"name":"i","file":"/etc/user-rules/a.b.12.yml"}]}}"#;
        assert_eq!(read_files(told), BTreeSet::from(["a.b.12.yml"]));
        assert!(read_files("{}").is_empty());
    }
}
