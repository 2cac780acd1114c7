//! Secrets of type `kubernetes.io/service-account-token`: filled with a token, removed with their account.
//!
//! Such Secrets are known by an annotation, so only metadata is watched: the contents of Secrets are never
//! held here. A Secret of another type with that annotation is left alone by the API itself: our patch names
//! the type, and the type of a Secret cannot change.

use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, Caches, Controller, Key, Kind, Plan, Target, Watches};
use serde_json::json;

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const TYPE: &str = "kubernetes.io/service-account-token";

/// Makes a token for an account (key, UID), kept in the Secret of this name.
pub type Signer = Arc<dyn Fn(&Key, &str, &str) -> Option<String> + Send + Sync>;

pub struct TokenSecrets {
    pub signer: Signer,
    /// The CA certificate (PEM) that goes with the token.
    pub root_ca: String,
}

pub struct Observed {
    secret: Target,
    namespace: String,
    state: State,
}

enum State {
    /// Its account is missing (the API must confirm it), or was made anew under the same name.
    Lost(Option<Target>),
    /// The UID of the account, and the token it gets.
    Empty(String, String),
}

impl Controller for TokenSecrets {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "tokens-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        let sink = watches.sink();
        watches.caches().of_kind(&Kind::of::<Secret>()).listen_metadata(Box::new(move |_, (_, new)| {
            if let Some(meta) = new.filter(|meta| annotation(meta, ACCOUNT_NAME).is_some()) {
                sink(Key::of_meta(meta));
            }
        }));
        watches.on::<ServiceAccount>(|caches, account| {
            let namespace = account.metadata.namespace.as_deref().unwrap_or("");
            let secrets = caches.of_kind(&Kind::of::<Secret>()).metadata_in(namespace);
            let named = secrets
                .iter()
                .filter(|meta| annotation(meta, ACCOUNT_NAME) == account.metadata.name.as_deref());
            named.map(Key::of_meta).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let meta = caches.of_kind(&Kind::of::<Secret>()).metadata(key)?;
        let account_key = Key::new(&*key.namespace, annotation(&meta, ACCOUNT_NAME)?);
        if meta.deletion_timestamp.is_some() {
            return None;
        }
        let known = annotation(&meta, ACCOUNT_UID);
        let account = caches.of::<ServiceAccount>().get(&account_key);
        let state = match account.as_ref().and_then(|account| account.metadata.uid.as_deref()) {
            Some(uid) if known == Some(uid) => return None,
            Some(_) if known.is_some() => State::Lost(None),
            Some(uid) => State::Empty(uid.to_owned(), (self.signer)(&account_key, uid, &key.name)?),
            None => {
                let kind = Kind::of::<ServiceAccount>();
                State::Lost(Some(Target { kind, key: account_key, uid: None, resource_version: None }))
            }
        };
        let secret =
            Target { kind: Kind::of::<Secret>(), key: key.clone(), uid: meta.uid, resource_version: None };
        Some(Observed { secret, namespace: key.namespace.clone(), state })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let target = seen.secret.clone();
        match &seen.state {
            State::Lost(account) => {
                plan.actions.extend(account.clone().map(|target| Action::RequireAbsent { target }));
                plan.act(Action::Delete { target, propagation: None, grace_seconds: None, told: None });
            }
            State::Empty(uid, token) => {
                let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
                let patch = json!({
                    "type": TYPE,
                    "metadata": {"annotations": {ACCOUNT_UID: uid}},
                    "data": {"token": bytes(token), "ca.crt": bytes(&self.root_ca), "namespace": bytes(&seen.namespace)},
                });
                plan.act(Action::Patch { target, subresource: None, patch });
            }
        }
        plan
    }
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use minik8s_runtime::testing::{Simulation, World, check_convergence};

    use super::*;

    fn account() -> ServiceAccount {
        serde_json::from_value(json!({"metadata": {"name": "bot", "namespace": "ns", "uid": "u1"}})).unwrap()
    }

    fn secret(account: &str) -> Secret {
        let meta = json!({"name": "token", "namespace": "ns", "annotations": {ACCOUNT_NAME: account}});
        serde_json::from_value(json!({"metadata": meta, "type": TYPE})).unwrap()
    }

    fn simulate(world: World) -> Simulation {
        let signer: Signer = Arc::new(|account, uid, secret| Some(format!("{account} {uid} {secret}")));
        Simulation::new(world).with(TokenSecrets { signer, root_ca: "ca".to_owned() })
    }

    #[test]
    fn filled_and_removed_with_its_account() {
        let build = || {
            let mut world = World::default();
            world.insert(&account());
            world.insert(&secret("bot"));
            simulate(world)
        };
        check_convergence(build, |simulation| {
            let secret: Secret = simulation.world.get(&Key::new("ns", "token")).unwrap();
            assert_eq!(secret.data.unwrap()["token"].0, b"ns/bot u1 token");
        });
        let mut simulation = build();
        simulation.settle().unwrap();
        simulation.world.delete::<ServiceAccount>(&Key::new("ns", "bot"));
        simulation.settle().unwrap();
        assert!(simulation.world.get::<Secret>(&Key::new("ns", "token")).is_none());
    }

    #[test]
    fn without_an_account_it_goes() {
        let mut world = World::default();
        world.insert(&secret("nobody"));
        let mut simulation = simulate(world);
        simulation.settle().unwrap();
        assert!(simulation.world.get::<Secret>(&Key::new("ns", "token")).is_none());
    }
}
