//! The scales of kinds that nobody caches, asked for when an autoscaler looks and kept for a moment.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use k8s_openapi::api::autoscaling::v1::Scale;
use kube::Client;
use minik8s_meta::LabelSelector;
use minik8s_runtime::{Key, Kind, Selector};
use parking_lot::Mutex;

use super::target::{Missing, Target};
use minik8s_runtime::Catalog;

/// So old an answer may be; the next look asks anew.
const FRESH: Duration = Duration::from_secs(1);

type Wake = Arc<dyn Fn(Key) + Send + Sync>;

pub struct Scales {
    client: Option<Client>,
    catalog: Arc<Catalog>,
    known: Arc<Mutex<HashMap<(Kind, Key), Known>>>,
    wake: OnceLock<Wake>,
}

#[derive(Clone)]
struct Known {
    asked: Instant,
    answer: Option<Result<Target, Missing>>,
}

impl Scales {
    /// Without a client nothing is ever known, as in tests.
    pub fn new(client: Option<Client>, catalog: Arc<Catalog>) -> Self {
        Scales { client, catalog, known: Arc::default(), wake: OnceLock::new() }
    }

    /// Who is to hear that a scale became known.
    pub fn tell(&self, wake: Wake) {
        let _ = self.wake.set(wake);
    }

    /// The scale of an object. None: it is being asked for, and the autoscaler is woken with the answer.
    pub fn find(
        &self,
        autoscaler: &Key,
        group: &str,
        version: &str,
        kind: &str,
        key: &Key,
    ) -> Option<Result<Target, Missing>> {
        let kinds = self.catalog.kinds();
        let Some(found) = kinds.iter().find(|known| known.group == group && known.kind == kind) else {
            let api_version =
                if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            let missing = format!("no matches for kind \"{kind}\" in version \"{api_version}\"");
            // Before the API's kinds are known nothing is missing.
            return (!kinds.is_empty()).then_some(Err(missing));
        };
        let kind = Kind { version: version.to_owned().into(), ..found.clone() };
        let place = (kind, key.clone());
        let mut known = self.known.lock();
        let before = known.get(&place).cloned();
        let is_fresh = before.as_ref().is_some_and(|known| known.asked.elapsed() < FRESH);
        let answer = before.and_then(|known| known.answer);
        if !is_fresh {
            // Objects that nobody asks for any more are forgotten.
            known.retain(|_, known| known.asked.elapsed() < FRESH * 60);
            known.insert(place.clone(), Known { asked: Instant::now(), answer: answer.clone() });
            drop(known);
            self.ask(place, autoscaler.clone());
        }
        answer
    }

    fn ask(&self, place: (Kind, Key), autoscaler: Key) {
        let (Some(client), known, wake) = (self.client.clone(), self.known.clone(), self.wake.get().cloned())
        else {
            return;
        };
        tokio::spawn(async move {
            let answer = ask(&client, &place.0, &place.1).await;
            let mut known = known.lock();
            let changed = match known.get_mut(&place) {
                Some(entry) if entry.answer.as_ref() != Some(&answer) => {
                    entry.answer = Some(answer);
                    true
                }
                _ => false,
            };
            drop(known);
            if let Some(wake) = wake.filter(|_| changed) {
                wake(autoscaler);
            }
        });
    }
}

async fn ask(client: &Client, kind: &Kind, key: &Key) -> Result<Target, Missing> {
    let path = format!("{}/scale", kind.object_path(key));
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    let scale: Scale = client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    })?;
    let status = scale.status.as_ref();
    let text = status.and_then(|status| status.selector.as_deref()).filter(|text| !text.is_empty());
    Ok(Target {
        kind: kind.clone(),
        key: key.clone(),
        wanted: scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0),
        existing: status.map_or(0, |status| status.replicas),
        selector: text.and_then(|text| LabelSelector::parse(text).ok()).map(Selector::from),
    })
}
