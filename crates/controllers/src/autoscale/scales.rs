//! The scales of kinds that nobody caches, asked for when an autoscaler looks and kept for a moment.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v1::Scale;
use kube::Client;
use minik8s_meta::LabelSelector;
use minik8s_runtime::{Catalog, Key, Kind, Selector};

use super::answer_cache::{AnswerCache, Wake};
use super::target::{Missing, Target};

/// So old an answer may be; the next look asks anew.
const FRESH: Duration = Duration::from_secs(1);

pub struct Scales {
    catalog: Arc<Catalog>,
    known: AnswerCache<(Kind, Key), Result<Target, Missing>>,
}

impl Scales {
    pub fn new(client: Option<Client>, catalog: Arc<Catalog>) -> Self {
        Scales { catalog, known: AnswerCache::new(client, FRESH) }
    }

    /// Who is to hear that a scale became known.
    pub fn tell(&self, wake: Wake) {
        self.known.tell(wake);
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
        self.known.find(autoscaler, (kind, key.clone()), ask)
    }
}

async fn ask(client: Client, (kind, key): (Kind, Key)) -> Result<Target, Missing> {
    let path = format!("{}/scale", kind.object_path(&key));
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    let scale: Scale = client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    })?;
    let status = scale.status.as_ref();
    let text = status.and_then(|status| status.selector.as_deref()).filter(|text| !text.is_empty());
    Ok(Target {
        kind,
        key,
        wanted: scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0),
        existing: status.map_or(0, |status| status.replicas),
        selector: text.and_then(|text| LabelSelector::parse(text).ok()).map(Selector::from),
    })
}
