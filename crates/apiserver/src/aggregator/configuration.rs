//! `extension-apiserver-authentication`: where extension API servers read whom they may believe about users.

use serde_json::{Value, json};

use crate::api::Api;
use crate::error::Result;
use crate::object::Object;
use crate::registry::Call;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const BUNDLE: &str = "requestheader-client-ca-file";
/// Each server of the cluster has an authority of its own; older ones go first.
const MOST_AUTHORITIES: usize = 16;
const END: &str = "-----END CERTIFICATE-----\n";

/// Writes it where it is not as it should be.
pub async fn publish(api: &Api) -> Result<()> {
    let registry = &api.registry;
    let served = registry.built_in("", "v1", "configmaps")?;
    let call = Call::internal(served.clone(), NAMESPACE, NAME);
    let own = api.aggregator.front_proxy.ca_pem();
    let found = match registry.look(&served, NAMESPACE, NAME).await {
        Ok(found) => Some(found),
        Err(error) if error.code == 404 => None,
        Err(error) => return Err(error),
    };
    match found {
        None => {
            let object = json!({
                "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": NAME, "namespace": NAMESPACE},
                "data": data(&api.client_ca, &own, ""),
            });
            match registry.create(&call, object).await {
                Err(error) if error.reason == "AlreadyExists" => Ok(()),
                made => made.map(drop),
            }
        }
        Some(found) => {
            let bundle = found["data"][BUNDLE].as_str().unwrap_or_default();
            if found["data"] == data(&api.client_ca, &own, bundle) {
                return Ok(());
            }
            let change = registry.change(&call, |old| {
                let mut new = old.clone();
                let bundle = old["data"][BUNDLE].as_str().unwrap_or_default();
                new["data"] = data(&api.client_ca, &own, bundle);
                new.metadata_mut();
                Ok(new)
            });
            change.await.map(drop)
        }
    }
}

fn data(client_ca: &str, own: &str, bundle: &str) -> Value {
    json!({
        "client-ca-file": client_ca,
        "requestheader-allowed-names": "[\"front-proxy-client\"]",
        BUNDLE: with_own(bundle, own),
        "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        "requestheader-group-headers": "[\"X-Remote-Group\"]",
        "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
    })
}

/// The authorities of all servers, this one's among them.
fn with_own(bundle: &str, own: &str) -> String {
    let mut authorities: Vec<&str> = bundle.split_inclusive(END).filter(|one| one.ends_with(END)).collect();
    if !authorities.contains(&own) {
        authorities.push(own);
    }
    let spare = authorities.len().saturating_sub(MOST_AUTHORITIES);
    authorities.split_off(spare).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundle_holds_the_authority_of_every_server_once() {
        let one = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n{END}");
        assert_eq!(with_own("", &one("a")), one("a"));
        assert_eq!(with_own(&one("a"), &one("a")), one("a"));
        assert_eq!(with_own(&one("b"), &one("a")), one("b") + &one("a"));
        assert_eq!(with_own("nonsense", &one("a")), one("a"));
        let many: String = (0..20).map(|number| one(&number.to_string())).collect();
        let kept = with_own(&many, &one("a"));
        assert_eq!(kept.matches(END).count(), MOST_AUTHORITIES);
        assert!(kept.ends_with(&one("a")));
    }
}
