//! One run of the program: the flags, and what is asked of the server at most once (who it is, what it knows).

use std::fmt::Display;
use std::sync::Arc;

use http::Method;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use crate::client::{Call, Client};
use crate::config;
use crate::discovery::{Discovery, Kind};
use crate::error::{Error, Result};
use crate::flags::{DryRun, GlobalFlags};
use crate::progress::Progress;

pub struct Session {
    pub flags: GlobalFlags,
    /// Called through a link of that name: then nothing that kubectl does not print.
    pub as_kubectl: bool,
    connected: OnceCell<Connected>,
    discovery: Mutex<Option<Arc<Discovery>>>,
}

struct Connected {
    client: Client,
    namespace: String,
}

impl Session {
    pub fn new(flags: GlobalFlags, as_kubectl: bool) -> Session {
        Session { flags, as_kubectl, connected: OnceCell::new(), discovery: Mutex::default() }
    }

    async fn connected(&self) -> Result<&Connected> {
        self.connected
            .get_or_try_init(|| async {
                let config = config::load(&self.flags).await?;
                let namespace =
                    self.flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
                Ok(Connected { client: Client::new(config, self.flags.request_timeout)?, namespace })
            })
            .await
    }

    pub async fn client(&self) -> Result<&Client> {
        Ok(&self.connected().await?.client)
    }

    /// The namespace to work in.
    pub async fn namespace(&self) -> Result<&str> {
        Ok(&self.connected().await?.namespace)
    }

    /// Tells a person what is going on, until what is returned is dropped.
    pub fn progress(&self, text: impl Display) -> Progress {
        if self.as_kubectl { Progress::hidden() } else { Progress::begin(text) }
    }

    pub async fn discovery(&self) -> Result<Arc<Discovery>> {
        let mut known = self.discovery.lock().await;
        if let Some(discovery) = &*known {
            return Ok(Arc::clone(discovery));
        }
        let found = Discovery::load(self.client().await?).await?;
        let discovery = Arc::new(Discovery { suggests: !self.as_kubectl, ..found });
        *known = Some(Arc::clone(&discovery));
        Ok(discovery)
    }

    /// Asks again: a definition has just been made.
    pub async fn rediscover(&self) -> Result<Arc<Discovery>> {
        *self.discovery.lock().await = None;
        self.discovery().await
    }

    pub async fn kind(&self, word: &str) -> Result<Kind> {
        self.discovery().await?.find(word).cloned()
    }

    /// The object as it would be sent: in the namespace of the flags if it names none.
    pub async fn place(&self, kind: &Kind, object: &mut Value) -> Result<Option<String>> {
        if !kind.namespaced {
            return Ok(None);
        }
        let own = object["metadata"]["namespace"].as_str().filter(|own| !own.is_empty()).map(str::to_owned);
        match (own, &self.flags.namespace) {
            (Some(own), Some(asked)) if own != *asked => Err(Error::plain(format!(
                "the namespace from the provided object {own:?} does not match the namespace {asked:?}. \
                 You must pass '--namespace={own}' to perform this operation."
            ))),
            (Some(own), _) => Ok(Some(own)),
            (None, _) => {
                let namespace = self.namespace().await?.to_owned();
                object["metadata"]["namespace"] = namespace.clone().into();
                Ok(Some(namespace))
            }
        }
    }

    /// Creates an object, unless it is only to be shown.
    pub async fn create(&self, kind: &Kind, object: &Value, how: &Writing<'_>) -> Result<Value> {
        if how.dry_run == DryRun::Client {
            return Ok(object.clone());
        }
        let namespace = object["metadata"]["namespace"].as_str();
        let call = Call::new(Method::POST, kind.path(namespace, None)).json(object);
        self.client().await?.send(how.parameters(call)).await
    }

    /// Patches an object or one of its subresources.
    pub async fn patch(
        &self,
        path: String,
        content_type: &'static str,
        patch: &Value,
        how: &Writing<'_>,
    ) -> Result<Value> {
        let call = Call::new(Method::PATCH, path).body(content_type, patch.to_string().into_bytes());
        self.client().await?.send(how.parameters(call)).await
    }
}

pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// How a change is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Writing<'a> {
    pub manager: &'a str,
    pub dry_run: DryRun,
    /// `Strict`, `Warn` or `Ignore`: what the server does about fields it does not know.
    pub validation: Option<&'a str>,
}

impl Writing<'_> {
    pub fn parameters(&self, call: Call) -> Call {
        call.query("fieldManager", self.manager)
            .maybe("dryRun", (self.dry_run == DryRun::Server).then_some("All"))
            .maybe("fieldValidation", self.validation)
    }
}
