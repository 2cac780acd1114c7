//! Tells the control plane how many requests of each function this node has: at once when there is a first one, then as
//! often as it matters while there are some, and not at all while there are none.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use minik8s_meta::function::{FunctionDemand, FunctionDemandSpec};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{Gate, Gates};

/// Between two looks at functions that have requests.
const LOOK: Duration = Duration::from_millis(100);
/// Who has not answered for so long does not.
const SILENCE: Duration = Duration::from_secs(1);
/// The control plane forgets what it has not heard for a minute.
const REPEAT: Duration = Duration::from_secs(20);

/// Runs for ever.
pub async fn report(gates: &Gates, client: &Client, node: &str) {
    let mut complained = false;
    loop {
        gates.needs.notified().await;
        loop {
            let all = gates.list();
            let busy: Vec<_> = all.iter().filter(|gate| !gate.state.lock().demand.is_quiet()).collect();
            if busy.is_empty() {
                break;
            }
            for gate in busy {
                let Some((wanted, uid)) = gate.due() else { continue };
                match gates.heard(tell(gate, wanted, uid, client, node)).await {
                    Ok(()) => {
                        complained = false;
                        gate.state.lock().demand.told(wanted, Instant::now());
                    }
                    Err(error) if !complained => {
                        complained = true;
                        warn!(%error, "cannot tell the control plane about requests for functions");
                    }
                    Err(error) => debug!(%error, "cannot tell about requests"),
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Gates {
    /// Notes whether the control plane answers. However long that takes, it is not asked anew meanwhile.
    async fn heard(&self, telling: impl Future<Output = kube::Result<()>>) -> kube::Result<()> {
        let mut telling = pin!(telling);
        let told = match timeout(SILENCE, telling.as_mut()).await {
            Ok(told) => told,
            Err(_) => {
                self.silent.store(true, Ordering::Relaxed);
                telling.await
            }
        };
        // Whoever refuses answers.
        let is_silent = told.as_ref().is_err_and(|error| !matches!(error, kube::Error::Api(_)));
        self.silent.store(is_silent, Ordering::Relaxed);
        told
    }
}

impl Gate {
    /// What to tell, and the function's uid.
    fn due(&self) -> Option<(u32, String)> {
        let mut state = self.state.lock();
        let seconds = |number: u32| Duration::from_secs(number.into());
        let (memory, idle) =
            (seconds(state.settings.scale_down_seconds), seconds(state.settings.idle_seconds));
        let now = Instant::now();
        let wanted = state.demand.look(now, memory, idle);
        let due = state.demand.due(wanted, now, REPEAT)?;
        Some((due, state.settings.uid.clone()))
    }
}

async fn tell(gate: &Gate, requests: u32, uid: String, client: &Client, node: &str) -> kube::Result<()> {
    let (namespace, function) = gate.name.clone();
    let name = format!("{function}.{node}");
    let path = format!("/apis/internal.minik8s.io/v1/namespaces/{namespace}/functiondemands/{name}");
    let owner = OwnerReference {
        api_version: "minik8s.io/v1".to_owned(),
        kind: "Function".to_owned(),
        name: function,
        uid,
        ..OwnerReference::default()
    };
    let demand = FunctionDemand {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: FunctionDemandSpec { requests, at: Some(Time(Timestamp::now())) },
        ..FunctionDemand::default()
    };
    let body = serde_json::to_vec(&demand).map_err(kube::Error::SerdeError)?;
    let request = http::Request::put(path).header("content-type", "application/json").body(body);
    let request = request.map_err(kube::Error::HttpError)?;
    client.request::<serde_json::Value>(request).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::Refused;
    use super::super::tests::{endpoints, gate};
    use super::*;

    fn gone() -> kube::Error {
        kube::Error::Service(std::io::Error::other("connection refused").into())
    }

    /// Why a request is refused that found no place.
    async fn refusal(gates: &Gates, instances: &[&str]) -> Refused {
        let gate = gate(gates, &endpoints(instances, None));
        let mut held = Vec::new();
        loop {
            match gate.acquire(Instant::now()).await {
                Ok(permit) => held.push(permit),
                Err(refused) => return refused,
            }
        }
    }

    #[tokio::test]
    async fn request_for_no_instance_is_told_that_the_control_plane_is_silent() {
        let gates = Gates::default();
        let waited = Duration::from_secs(30);
        assert_eq!(refusal(&gates, &[]).await, Refused::Late(waited));
        assert!(gates.heard(async { Err(gone()) }).await.is_err());
        assert_eq!(refusal(&gates, &[]).await, Refused::Unheard(waited));
        assert_eq!(
            refusal(&gates, &["10.0.0.1"]).await,
            Refused::Late(waited),
            "instances are there, all busy"
        );
        assert!(gates.heard(async { Ok(()) }).await.is_ok());
        assert_eq!(refusal(&gates, &[]).await, Refused::Late(waited));
    }

    #[tokio::test(start_paused = true)]
    async fn control_plane_that_takes_its_time_is_silent_until_it_answers() {
        let gates = Gates::default();
        let slow = async {
            tokio::time::sleep(SILENCE * 10).await;
            Ok(())
        };
        let looking = async {
            tokio::time::sleep(SILENCE * 2).await;
            gates.silent.load(Ordering::Relaxed)
        };
        let (told, was_silent) = tokio::join!(gates.heard(slow), looking);
        assert!(told.is_ok() && was_silent && !gates.silent.load(Ordering::Relaxed));
    }
}
