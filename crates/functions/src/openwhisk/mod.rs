//! The part of OpenWhisk's REST API that actions and the `wsk` command need: actions are Functions, activations are
//! Invocations. It stands at `/openwhisk` of the API server; a client's API host is `https://SERVER/openwhisk`.
//!
//! A client's key is `NAMESPACE:TOKEN`, with a token of Kubernetes. Whatever is asked for is done as the user whom that token
//! names, through the same API that `kubectl` uses: RBAC, quotas and admission decide, and nothing here does.

mod action;
mod activation;
mod path;
#[cfg(test)]
mod tests;
mod user;
mod waiters;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, Response, StatusCode};
use minik8s_api::{Access, Body, Handler, HandlerRequest, Objects, Route, respond};
use minik8s_feature::Parts;
use minik8s_meta::function::Function;
use minik8s_meta::invocation::{Invocation, InvocationSpec};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::validate::LARGEST_ZIP;
use path::{Path, Wanted};
use user::AsUser;
use waiters::{Means, Waiters};

/// Bytes of an action with its archive in base64. Three quarters of what one user may have on the way at once, so that others
/// of theirs get through meanwhile.
const LARGEST_ACTION: usize = 24 << 20;
/// Actions that may be large, which are in memory several times while they are worked on, come one after the other.
static LARGE: Semaphore = Semaphore::const_new(1);
/// OpenWhisk's own: after that a client that waits gets the id.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const TRIES: usize = 5;

/// Why something is not done.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub StatusCode, pub String);

pub type Result<T> = std::result::Result<T, Refused>;

/// What is known once the control plane runs.
#[derive(Clone, Default)]
pub struct OpenWhisk(Arc<Waiters>);

impl OpenWhisk {
    pub fn route(&self) -> Route {
        Route { path: path::ROOT, access: Access::Authenticated, handler: Arc::new(self.clone()) }
    }

    pub fn start(&self, parts: &Parts) {
        self.0.start(parts);
    }
}

#[async_trait]
impl Handler for OpenWhisk {
    /// A client may wait for the end of its action.
    fn is_long_running(&self) -> bool {
        true
    }

    fn largest_body(&self, method: &Method, path: &str) -> Option<usize> {
        (method == Method::PUT && path::is_action(path)).then_some(LARGEST_ACTION)
    }

    async fn handle(&self, request: HandlerRequest, _cluster: &dyn Objects) -> Response<Body> {
        let (code, answer) = match self.answer(&request).await {
            Ok(answer) => answer,
            Err(Refused(code, message)) => (code, json!({"error": message, "code": code.as_u16()})),
        };
        respond(code, "application/json", answer.to_string())
    }
}

impl OpenWhisk {
    async fn answer(&self, request: &HandlerRequest) -> Result<(StatusCode, Value)> {
        let means = self
            .0
            .means()
            .ok_or_else(|| Refused(StatusCode::SERVICE_UNAVAILABLE, "functions do not run yet".to_owned()))?;
        let path = Path::parse(request)?;
        let user =
            AsUser { client: &means.client, requester: &request.requester, namespace: &path.namespace };
        let ok = |value: Value| Ok((StatusCode::OK, value));
        match (&request.method, &path.wanted) {
            (&Method::GET, Wanted::Actions) => {
                let all = user.list::<Function>().await?;
                ok(all.iter().map(action::summary).collect())
            }
            (&Method::GET, Wanted::Action(name)) => ok(action::action(&user.get::<Function>(name).await?)),
            (&Method::PUT, Wanted::Action(name)) => {
                ok(action::action(&put(&user, name, path.flag("overwrite"), &request.body).await?))
            }
            (&Method::DELETE, Wanted::Action(name)) => {
                let function: Function = user.get(name).await?;
                user.delete::<Function>(name).await?;
                ok(action::action(&function))
            }
            (&Method::POST, Wanted::Action(name)) => {
                self.invoke(&means, &user, &path, name, &request.body).await
            }
            (&Method::GET, Wanted::Activations) => {
                let mut all = user.list::<Invocation>().await?;
                all.sort_by_key(|one| std::cmp::Reverse(one.metadata.creation_timestamp.clone()));
                ok(activation::chosen(&all, &path))
            }
            (&Method::GET, Wanted::Activation(id, part)) => {
                let invocation: Invocation = user.get(id).await?;
                if !invocation.has_ended() {
                    return Err(Refused(
                        StatusCode::NOT_FOUND,
                        "the activation has not ended yet".to_owned(),
                    ));
                }
                ok(activation::part(&invocation, part))
            }
            (&Method::GET, Wanted::Nothing(list)) if *list => ok(json!([])),
            (&Method::GET, Wanted::Namespaces) => ok(json!([path.namespace])),
            (method, _) => {
                let told = format!("{method} {} is not part of what is served here", request.path);
                Err(Refused(StatusCode::METHOD_NOT_ALLOWED, told))
            }
        }
    }

    async fn invoke(
        &self,
        means: &Means,
        user: &AsUser<'_>,
        path: &Path,
        name: &str,
        body: &[u8],
    ) -> Result<(StatusCode, Value)> {
        // A user who may call may not read, and need not: what is not there fails by itself, but late.
        let key = minik8s_runtime::Key::new(&*path.namespace, name);
        if means.functions.get(&key).is_none() {
            return Err(Refused(
                StatusCode::NOT_FOUND,
                format!("there is no action {name} in {}", path.namespace),
            ));
        }
        let payload = activation::payload(body)?;
        let known = self.0.known_to_routers(means, &key);
        // One whose instances cannot start is called all the same, and says why.
        let _ = tokio::time::timeout(LONGEST_WAIT, known).await;
        let mut invocation = Invocation::default();
        let id = uuid::Uuid::new_v4().simple().to_string();
        invocation.metadata.name = Some(id.clone());
        invocation.spec = InvocationSpec {
            function: name.to_owned(),
            payload: Some(payload),
            attempts: Some(1),
            ..InvocationSpec::default()
        };
        let waits = path.flag("blocking");
        let ended = self.0.expect(&path.namespace, &id);
        user.create(&invocation).await?;
        let accepted = || (StatusCode::ACCEPTED, json!({"activationId": id}));
        if !waits {
            return Ok(accepted());
        }
        match tokio::time::timeout(LONGEST_WAIT, ended.wait(means)).await {
            Ok(ended) => Ok(activation::answer(&ended, path.flag("result"))),
            Err(_) => Ok(accepted()),
        }
    }
}

/// Makes the function that an action is, or changes it.
async fn put(user: &AsUser<'_>, name: &str, overwrite: bool, body: &[u8]) -> Result<Function> {
    let _turn = match body.len() > LARGEST_ZIP {
        true => LARGE.acquire().await.ok(),
        false => None,
    };
    let wanted: Value = serde_json::from_slice(body)
        .map_err(|error| Refused(StatusCode::BAD_REQUEST, format!("the action is not JSON: {error}")))?;
    for _ in 0..TRIES {
        let there = match user.get::<Function>(name).await {
            Ok(function) => Some(function),
            Err(Refused(StatusCode::NOT_FOUND, _)) => None,
            Err(refused) => return Err(refused),
        };
        let is_there = there.is_some();
        if is_there && !overwrite {
            return Err(Refused(StatusCode::CONFLICT, "resource already exists".to_owned()));
        }
        let mut function = action::function(name, user.namespace, &wanted, there.unwrap_or_default())?;
        user.place_code(name, &mut function.spec).await?;
        let made = match is_there {
            true => user.replace(name, &function).await,
            false => user.create(&function).await,
        };
        match made {
            // Its status changes at any time.
            Err(Refused(StatusCode::CONFLICT, _)) => {}
            other => return other,
        }
    }
    Err(Refused(StatusCode::CONFLICT, "others change the action all the time".to_owned()))
}
