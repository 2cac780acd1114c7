//! The cluster's Services, as far as containers are told of them in their environment.

mod env;

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use minik8s_informer::Cache;
use tracing::warn;

pub use env::service_env;

/// A pod without the variables of a Service is better than no pod.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until the Services were listed once, though not for ever.
pub async fn services_synced(services: &Cache<Service>) {
    if tokio::time::timeout(TIMEOUT, services.wait_synced()).await.is_err() {
        warn!("the Services are not known yet: a container starts without their variables");
    }
}
