//! `/healthz`, `/livez`, `/readyz`: each check by name, with `?verbose` and `?exclude=`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Response;
use minik8s_store::Store;

use crate::answer::{self, Body};
use crate::authorizer::Authorizer;
use crate::request::{Query, RequestInfo};

/// The store must answer within this time to be called healthy.
const STORE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

const CHECKS: &[&str] = &["ping", "store", "bootstrap", "authorization"];

/// What the checks look at.
pub struct Health {
    pub store: Arc<dyn Store>,
    pub authorizer: Arc<Authorizer>,
    /// Set once the first objects are there.
    pub bootstrapped: AtomicBool,
}

impl Health {
    /// All checks with what each found.
    pub async fn checks(&self) -> Vec<(&'static str, Result<(), String>)> {
        let mut found = Vec::new();
        for name in CHECKS {
            found.push((*name, self.check(name).await));
        }
        found
    }

    async fn check(&self, name: &str) -> Result<(), String> {
        match name {
            "store" => match tokio::time::timeout(STORE_TIMEOUT, self.store.revision()).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("the store does not answer".to_owned()),
            },
            "bootstrap" if !self.bootstrapped.load(Ordering::Acquire) => {
                Err("the first objects are being made".to_owned())
            }
            "authorization" if !self.authorizer.is_ready() => Err("the RBAC rules are being read".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Whether the request asks how the server is.
pub fn is_probe(info: &RequestInfo) -> bool {
    let endpoint = info.path.trim_start_matches('/').split('/').next().unwrap_or_default();
    !info.is_resource && matches!(endpoint, "healthz" | "livez" | "readyz")
}

/// Answers health paths; None for other paths.
pub async fn answer(health: &Health, path: &str, query: &Query) -> Option<Response<Body>> {
    let (endpoint, one) = match path.trim_start_matches('/').split_once('/') {
        None => (path.trim_start_matches('/'), None),
        Some((endpoint, check)) => (endpoint, Some(check)),
    };
    let names: &[&str] = match endpoint {
        "livez" => &["ping", "store"],
        "healthz" | "readyz" => CHECKS,
        _ => return None,
    };
    if one.is_some_and(|one| !names.contains(&one)) {
        return None;
    }
    let mut lines = String::new();
    let mut failed = false;
    for name in names.iter().filter(|name| one.is_none_or(|one| one == **name)) {
        if query.all("exclude").any(|excluded| excluded == *name) {
            lines += &format!("[+]{name} excluded: ok\n");
            continue;
        }
        match health.check(name).await {
            Ok(()) => lines += &format!("[+]{name} ok\n"),
            Err(why) => {
                failed = true;
                lines += &format!("[-]{name} failed: {why}\n");
            }
        }
    }
    Some(match (failed, query.get("verbose").is_some()) {
        (true, _) => answer::text(500, format!("{lines}{endpoint} check failed\n")),
        (false, true) => answer::text(200, format!("{lines}{endpoint} check passed\n")),
        (false, false) => answer::text(200, "ok"),
    })
}
