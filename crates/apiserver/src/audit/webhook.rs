//! The webhook backend: events go to a collector in batches, as an `EventList`. The collector's address and authority are
//! in a kubeconfig file.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use minik8s_meta::Backoff;
use serde_json::Value;

use crate::registry::Registry;
use crate::webhook_client::Client;

/// A batch is tried so often, with growing pauses, before it is given up.
const TRIES: u32 = 5;
const RETRY: Backoff = Backoff::millis(500, 60_000);
const TIMEOUT_SECONDS: i32 = 10;

pub struct Webhook(Client);

impl Webhook {
    /// Of a kubeconfig file with one cluster: `server` (https) and its authority.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let file: Value = serde_saphyr::from_str(&text).map_err(|error| error.to_string())?;
        let cluster = &file["clusters"][0]["cluster"];
        let server = cluster["server"].as_str().unwrap_or_default();
        if !server.starts_with("https://") {
            return Err("clusters[0].cluster.server must be the collector's https:// address".to_owned());
        }
        let bundle = match (&cluster["certificate-authority-data"], &cluster["certificate-authority"]) {
            (Value::String(data), _) => {
                let told = |error| format!("certificate-authority-data: {error}");
                Some(STANDARD.decode(data.trim()).map_err(told)?)
            }
            (_, Value::String(file)) => {
                Some(std::fs::read(file).map_err(|error| format!("certificate-authority {file}: {error}"))?)
            }
            _ => None,
        };
        let config = WebhookClientConfig {
            url: Some(server.to_owned()),
            ca_bundle: bundle.map(ByteString),
            ..WebhookClientConfig::default()
        };
        Ok(Webhook(Client::new(&config, TIMEOUT_SECONDS)))
    }

    /// Sends lines of events; says why where it cannot.
    pub async fn send(&self, registry: &Registry, events: &[Bytes]) -> Result<(), String> {
        let mut body =
            br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#.to_vec();
        for (at, event) in events.iter().enumerate() {
            if at > 0 {
                body.push(b',');
            }
            body.extend_from_slice(event);
        }
        body.extend_from_slice(b"]}");
        let body = Bytes::from(body);
        let mut problem = String::new();
        for tries in 1..=TRIES {
            match self.0.post(registry, body.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) => problem = error,
            }
            tokio::time::sleep(RETRY.after(tries)).await;
        }
        Err(problem)
    }
}
