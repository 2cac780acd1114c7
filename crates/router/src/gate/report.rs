//! Tells the control plane how many requests of each function this node has: at once when there is a first one, then as
//! often as it matters while there are some, and not at all while there are none.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use minik8s_meta::function::{FunctionDemand, FunctionDemandSpec};
use tokio::time::{timeout, timeout_at};
use tracing::{debug, warn};

use super::{Gate, Gates};

/// Between two looks at functions that have requests.
const LOOK: Duration = Duration::from_millis(100);
/// Who has not answered for so long does not.
const SILENCE: Duration = Duration::from_secs(1);
/// The control plane forgets what it has not heard for a minute.
const REPEAT: Duration = Duration::from_secs(20);
/// Functions that are told of at the same time.
const TOLD_AT_ONCE: usize = 8;

/// Runs for ever.
pub async fn report(gates: &Gates, client: &Client, node: &str) {
    let tell = |gate: Arc<Gate>, wanted, uid| async move { tell(&gate, wanted, uid, client, node).await };
    follow(gates, tell).await;
}

/// A function that has its first request is told of at once, also while others are busy: only what failed waits for the
/// next look, so that requests do not ask anew whoever does not answer.
async fn follow<T>(gates: &Gates, tell: impl Fn(Arc<Gate>, u32, String) -> T)
where
    T: Future<Output = kube::Result<()>>,
{
    let mut complained = false;
    loop {
        gates.needs.notified().await;
        let mut look_at = tokio::time::Instant::now();
        loop {
            let mut busy = gates.list();
            busy.retain(|gate| !gate.state.lock().demand.is_quiet());
            if busy.is_empty() {
                break;
            }
            let is_look = tokio::time::Instant::now() >= look_at;
            busy.retain(|gate| is_look || gate.state.lock().demand.is_news());
            let telling = busy.into_iter().filter_map(|gate| {
                let (wanted, uid) = gate.due()?;
                let heard = gates.heard(tell(gate.clone(), wanted, uid));
                Some(async move { (gate, wanted, heard.await) })
            });
            let mut telling = pin!(stream::iter(telling).buffer_unordered(TOLD_AT_ONCE));
            let mut failed = false;
            while let Some((gate, wanted, told)) = telling.next().await {
                match told {
                    Ok(()) => {
                        complained = false;
                        gate.state.lock().demand.told(wanted, Instant::now());
                    }
                    Err(error) => {
                        failed = true;
                        if !std::mem::replace(&mut complained, true) {
                            warn!(%error, "cannot tell the control plane about requests for functions");
                        }
                        debug!(%error, "cannot tell about requests");
                    }
                }
            }
            if is_look {
                look_at = tokio::time::Instant::now() + LOOK;
            }
            match failed {
                true => tokio::time::sleep_until(look_at).await,
                false => drop(timeout_at(look_at, gates.needs.notified()).await),
            }
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
    use parking_lot::Mutex;

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

    /// The functions `f` and `g`, each with one instance.
    fn two(gates: &Gates) -> [Arc<Gate>; 2] {
        let named = |name: &str| {
            let mut one = endpoints(&["10.0.0.1"], None);
            one.metadata.name = Some(name.to_owned());
            one
        };
        gates.apply([named("f"), named("g")].iter(), "n");
        ["f", "g"].map(|name| gates.get(&("ns".to_owned(), name.to_owned())).unwrap())
    }

    async fn wait(milliseconds: u64) {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn first_request_is_told_at_once_while_another_function_is_busy() {
        let (gates, told) = (Gates::default(), Mutex::new(Vec::new()));
        let [f, g] = two(&gates);
        let telling = follow(&gates, async |gate: Arc<Gate>, wanted, _| {
            told.lock().push((gate.name.1.clone(), wanted));
            Ok(())
        });
        let calling = async {
            let _one = f.acquire(Instant::now()).await.unwrap();
            wait(10).await;
            assert_eq!(*told.lock(), [("f".to_owned(), 1)]);
            let _two = g.acquire(Instant::now()).await.unwrap();
            wait(1).await;
            assert_eq!(told.lock()[1..], [("g".to_owned(), 1)], "before the next look");
            let _three = f.acquire(Instant::now()).await.unwrap();
            wait(1).await;
            assert_eq!(told.lock().len(), 2, "the number is looked at now and then");
            wait(100).await;
            assert_eq!(told.lock()[2..], [("f".to_owned(), 2)]);
        };
        tokio::select! {
            () = telling => unreachable!("it runs for ever"),
            () = calling => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_do_not_ask_anew_whoever_does_not_answer() {
        let (gates, asked) = (Gates::default(), Mutex::new(0));
        let [f, _] = two(&gates);
        let telling = follow(&gates, async |_, _, _| {
            *asked.lock() += 1;
            Err(gone())
        });
        let calling = async {
            for _ in 0..2 {
                let _permit = f.acquire(Instant::now()).await.unwrap();
                wait(20).await;
                assert_eq!(*asked.lock(), 1);
            }
            let _permit = f.acquire(Instant::now()).await.unwrap();
            wait(100).await;
            assert_eq!(*asked.lock(), 2, "at the next look");
        };
        tokio::select! {
            () = telling => unreachable!("it runs for ever"),
            () = calling => {}
        }
    }
}
