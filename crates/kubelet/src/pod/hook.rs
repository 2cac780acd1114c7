//! Lifecycle hooks.

use std::time::Duration;

use k8s_openapi::api::core::v1 as core;

use crate::cri::Runtime;
use crate::handler::{Origin, http_get};

/// A postStart hook may take as long as it likes; this only keeps a forgotten one from staying for ever.
pub const NO_LIMIT: Duration = Duration::from_secs(24 * 3600);
const AGENT: &str = "kube-lifecycle/1.37";

/// The container that a hook is about.
pub struct Target<'a> {
    pub runtime: &'a dyn Runtime,
    pub container: &'a core::Container,
    pub id: &'a str,
    pub ips: &'a [String],
    pub origin: &'a Origin,
}

pub async fn run(
    handler: &core::LifecycleHandler,
    target: &Target<'_>,
    timeout: Duration,
) -> Result<(), String> {
    if let Some(exec) = &handler.exec {
        let command = exec.command.clone().unwrap_or_default();
        let output = target.runtime.exec(target.id, &command, timeout).await.map_err(|e| e.to_string())?;
        if output.exit_code == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "command '{}' exited with {}: {}",
            command.join(" "),
            output.exit_code,
            text.trim_end()
        ));
    }
    if let Some(action) = &handler.http_get {
        let ip = target.ips.first().map(String::as_str).unwrap_or_default();
        let page = http_get(action, target.container, (ip, target.origin), AGENT, timeout).await?;
        return if page.status < 400 { Ok(()) } else { Err(format!("HTTP status {}", page.status)) };
    }
    if let Some(sleep) = &handler.sleep {
        let wanted = Duration::from_secs(sleep.seconds.max(0) as u64);
        tokio::time::sleep(wanted.min(timeout)).await;
        return Ok(());
    }
    // TCP hooks were never run by anybody; the API keeps the field for old objects.
    Ok(())
}
