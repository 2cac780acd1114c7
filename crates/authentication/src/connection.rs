//! The way to a webhook, of tokens or of rights: where it is, whom to trust there and who we are stand in a kubeconfig file.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use minik8s_meta::Backoff;
use serde_json::Value;

use crate::https::Client;

const LARGEST: usize = 1 << 20;
/// Beyond a bad moment of the webhook it is not asked again for one request.
const TRIES: u32 = 2;
const RETRY: Backoff = Backoff::millis(200, 1_000);

pub struct WebhookConnection {
    url: String,
    client: Client,
}

impl WebhookConnection {
    /// Of a kubeconfig file: its first cluster, and its first user's certificate or token if there is one.
    pub fn read(path: &Path, timeout: Duration) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let file: Value = serde_saphyr::from_str(&text).map_err(|error| error.to_string())?;
        let (cluster, user) = (&file["clusters"][0]["cluster"], &file["users"][0]["user"]);
        let url = cluster["server"].as_str().unwrap_or_default().to_owned();
        if !url.starts_with("https://") {
            return Err("clusters[0].cluster.server must be the webhook's https:// address".to_owned());
        }
        let authority = bytes(cluster, "certificate-authority")?.unwrap_or_default();
        let certificate = bytes(user, "client-certificate")?;
        let key = bytes(user, "client-key")?;
        let identity = certificate.as_deref().zip(key.as_deref());
        let mut client = Client::new(&authority, identity, timeout, LARGEST)?;
        if let Some(token) = token(user)? {
            client.show(&token)?;
        }
        Ok(WebhookConnection { url, client })
    }

    /// What it answers.
    pub async fn post(&self, json: &Value) -> Result<Bytes, String> {
        let body = Bytes::from(json.to_string());
        let mut why = String::new();
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(RETRY.after(attempt)).await;
            }
            match self.client.post(&self.url, body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

fn token(user: &Value) -> Result<Option<String>, String> {
    match (&user["tokenFile"], &user["token"]) {
        (Value::String(file), _) => {
            let text = std::fs::read_to_string(file).map_err(|error| format!("tokenFile {file}: {error}"))?;
            Ok(Some(text.trim().to_owned()))
        }
        (_, Value::String(token)) => Ok(Some(token.clone())),
        _ => Ok(None),
    }
}

/// A file's bytes, given as data or by its path.
fn bytes(of: &Value, name: &str) -> Result<Option<Vec<u8>>, String> {
    match (&of[format!("{name}-data")], &of[name]) {
        (Value::String(data), _) => {
            STANDARD.decode(data.trim()).map(Some).map_err(|error| format!("{name}-data: {error}"))
        }
        (_, Value::String(file)) => {
            std::fs::read(file).map(Some).map_err(|error| format!("{name} {file}: {error}"))
        }
        _ => Ok(None),
    }
}
