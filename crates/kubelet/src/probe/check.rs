//! Asks a container once.

use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::grpc;
use super::task::ProbeTarget;
use crate::cri::RuntimeError;
use crate::handler::{Origin, connect, http_get, port};

const AGENT: &str = "kube-probe/1.37";
const LONGEST_OUTPUT: usize = 512;

/// `Err` says what was wrong.
pub async fn check(probe: &core::Probe, target: &ProbeTarget) -> Result<(), String> {
    let timeout = Duration::from_secs(probe.timeout_seconds.unwrap_or(1).max(1) as u64);
    if let Some(exec) = &probe.exec {
        return run(exec, target, timeout).await;
    }
    if let Some(action) = &probe.http_get {
        let page = http_get(action, &target.container, (&target.ip, &target.origin), AGENT, timeout).await?;
        return match page.status {
            200..=399 => Ok(()),
            status => Err(format!("HTTP probe failed with statuscode: {status}")),
        };
    }
    if let Some(action) = &probe.tcp_socket {
        let host = action.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(&target.ip);
        let origin = if host == target.ip { &target.origin } else { &Origin::default() };
        return connect(host, port(&action.port, &target.container)?, origin, timeout).await.map(drop);
    }
    if let Some(action) = &probe.grpc {
        let port = port(&IntOrString::Int(action.port), &target.container)?;
        let service = action.service.as_deref().unwrap_or_default();
        return grpc::check((&target.ip, port), &target.origin, service, timeout).await;
    }
    Ok(())
}

async fn run(exec: &core::ExecAction, target: &ProbeTarget, timeout: Duration) -> Result<(), String> {
    let command = exec.command.clone().unwrap_or_default();
    match target.runtime.exec(&target.id, &command, timeout).await {
        Ok(output) if output.exit_code == 0 => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            Err(text.trim_end().chars().take(LONGEST_OUTPUT).collect())
        }
        Err(RuntimeError::Timeout(_)) => {
            Err(format!("command timed out: {:?} timed out after {}s", command.join(" "), timeout.as_secs()))
        }
        Err(error) => Err(error.to_string()),
    }
}
