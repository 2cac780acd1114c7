//! What a cold start without a slot is compared with: a pod of the same image whose interpreter serves HTTP with nothing of
//! ours in it, from its creation to its first answer.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::watcher::watch_object;
use minik8s_meta::function::runtime;
use serde_json::json;

use crate::{Bench, until};

const NAME: &str = "bare";
const PORT: u16 = 8080;
const SERVE: &str = "import http.server; http.server.HTTPServer(('', 8080), http.server.BaseHTTPRequestHandler).serve_forever()";
/// An interpreter needs some tens of milliseconds.
const PAUSE: Duration = Duration::from_millis(2);

impl Bench<'_> {
    pub async fn bare(&self) -> Result<Duration> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let image = runtime("python3.11").context("no such runtime")?.image;
        let container = json!({"name": "c", "image": image, "command": ["/usr/bin/python3.11", "-c", SERVE]});
        let spec = json!({"containers": [container], "terminationGracePeriodSeconds": 0});
        let pod = json!({"metadata": {"name": NAME}, "spec": spec});
        let begun = Instant::now();
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        let mut versions = std::pin::pin!(watch_object(pods.clone(), NAME));
        let address = loop {
            let version = versions.try_next().await?.context("the watch ended")?;
            if let Some(address) = version.and_then(|pod| pod.status?.pod_ip) {
                break address;
            }
        };
        until(
            "the bare pod answers",
            async || Ok(TcpStream::connect((address.as_str(), PORT)).is_ok()),
            PAUSE,
        )
        .await?;
        let took = begun.elapsed();
        pods.delete(NAME, &DeleteParams::default()).await?;
        until("the bare pod is gone", async || Ok(pods.get_opt(NAME).await?.is_none()), PAUSE * 10).await?;
        Ok(took)
    }
}
