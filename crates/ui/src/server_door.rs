//! Logging in at the API server: `/ui/sessions` for who has a credential, `/ui/session` for the browser's cookie.
//!
//! POST `/ui/sessions` answers a code; POST `/ui/session` from our own page exchanges it for a cookie, once. GET and DELETE
//! of `/ui/sessions` list and end sessions. No session opens another one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use http::header::{AUTHORIZATION, CACHE_CONTROL, HeaderValue, SET_COOKIE};
use http::{Method, Response, StatusCode};
use jiff::Timestamp;
use minik8s_api::{Body, Credential, Handler, HandlerRequest, Objects, SessionLimits, respond};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::same_origin::{self, WRITE_HEADER};
use crate::server_sessions::{COOKIE_NAME, Grant, ServerSessions, duration};

const MASTERS: &str = "system:masters";
const LONGEST_BODY: usize = 4096;

/// For who has a credential.
pub struct Door(pub Arc<ServerSessions>);

/// For the browser.
pub struct Exchange(pub Arc<ServerSessions>);

/// How a session is narrowed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    namespace: String,
    /// `8h`, `30m`.
    #[serde(default, rename = "for")]
    lasts: Option<String>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[async_trait]
impl Handler for Door {
    async fn handle(&self, request: HandlerRequest, _cluster: &dyn Objects) -> Response<Body> {
        let (user, now) = (request.requester.name.clone(), Instant::now());
        let is_master = request.requester.groups.iter().any(|group| group == MASTERS);
        if request.method != Method::GET && !request.headers.contains_key(WRITE_HEADER) {
            return refuse(StatusCode::FORBIDDEN, "the header X-Minik8s-UI is missing");
        }
        match request.method {
            Method::GET => answer(StatusCode::OK, &json!({"items": self.listed(&user, is_master, now)})),
            Method::POST => match open(&request, now).map(|grant| self.0.code(grant, now)) {
                Ok(Some(code)) => answer(StatusCode::CREATED, &json!({"code": code.as_str()})),
                Ok(None) => refuse(StatusCode::TOO_MANY_REQUESTS, "you have too many sessions: end some"),
                Err((status, why)) => refuse(status, &why),
            },
            Method::DELETE => {
                let id = request.query.strip_prefix("id=").unwrap_or_default();
                match self.0.end_by_id(id, &user, is_master) {
                    true => answer(StatusCode::OK, &json!({"ended": id})),
                    false => refuse(StatusCode::NOT_FOUND, "you have no such session"),
                }
            }
            _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "GET, POST or DELETE"),
        }
    }
}

impl Door {
    fn listed(&self, user: &str, is_master: bool, now: Instant) -> Vec<Value> {
        let seen = self.0.list(user, is_master, now).into_iter();
        seen.map(|seen| {
            let Grant { user, limits, .. } = seen.value;
            json!({
                "id": seen.id, "user": user, "readOnly": limits.read_only, "namespace": limits.namespace,
                "ageSeconds": seen.age.as_secs(), "idleSeconds": seen.idle.as_secs(),
            })
        })
        .collect()
    }
}

/// What the session stands for: the credential of this very request.
fn open(request: &HandlerRequest, now: Instant) -> Result<Grant, (StatusCode, String)> {
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    if request.headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Err(bad("a session is opened by its own user: without Impersonate- headers".to_owned()));
    }
    if request.body.len() > LONGEST_BODY {
        return Err(bad("the body is too long".to_owned()));
    }
    let body: &[u8] = if request.body.is_empty() { b"{}" } else { &request.body };
    let wanted: Wanted = serde_json::from_slice(body)
        .map_err(|error| bad(format!("the body is not as it should be: {error}")))?;
    let lasts = wanted.lasts.as_deref().map(|text| {
        duration(text).ok_or_else(|| bad(format!("for: {text:?} is no duration: 90s, 30m and 8h are")))
    });
    let lasts = lasts.transpose()?;
    let header = request.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|header| header.split_once(' ')).map(|(_, token)| token.trim().to_owned());
    let (credential, left) = match (request.expires, token) {
        (Some(expires), _) => {
            let groups = request.requester.groups.clone();
            let credential = Credential::Certificate { name: request.requester.name.clone(), groups };
            let left = Duration::try_from(expires.duration_since(Timestamp::now())).unwrap_or_default();
            (credential, Some(left))
        }
        (None, Some(token)) => (Credential::Token(token), None),
        (None, None) => {
            let why = "a session cannot open another one: use a token or a client certificate";
            return Err((StatusCode::FORBIDDEN, why.to_owned()));
        }
    };
    let lasts: Option<Duration> = [lasts, left].into_iter().flatten().min();
    let limits = SessionLimits { read_only: wanted.read_only, namespace: wanted.namespace };
    let ends = lasts.and_then(|lasts| now.checked_add(lasts));
    Ok(Grant { user: request.requester.name.clone(), credential, limits, ends })
}

#[async_trait]
impl Handler for Exchange {
    async fn handle(&self, request: HandlerRequest, _cluster: &dyn Objects) -> Response<Body> {
        if !same_origin::is_own(&request.method, &request.path, &request.headers, "https") {
            return refuse(StatusCode::FORBIDDEN, "sessions begin on the dashboard's own page");
        }
        let now = Instant::now();
        match request.method {
            Method::GET => match self.0.current(&request.headers, now) {
                Some((secret, grant)) => answer(
                    StatusCode::OK,
                    &json!({
                        "id": self.0.id(&secret), "user": grant.user, "readOnly": grant.limits.read_only,
                        "namespace": grant.limits.namespace,
                    }),
                ),
                None => refuse(StatusCode::NOT_FOUND, "there is no session"),
            },
            Method::POST if request.body.len() > LONGEST_BODY => refuse(StatusCode::BAD_REQUEST, "no code"),
            Method::POST => {
                let code = serde_json::from_slice::<Code>(&request.body).map(|body| body.code);
                match code.ok().and_then(|code| self.0.redeem(&code, now)) {
                    Some(session) => with_cookie(session.as_str(), "Max-Age=43200"),
                    None => refuse(StatusCode::UNAUTHORIZED, "this link was used, or is older than a minute"),
                }
            }
            Method::DELETE => {
                if let Some((secret, _)) = self.0.current(&request.headers, now) {
                    self.0.end(&secret);
                }
                with_cookie("", "Max-Age=0")
            }
            _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "GET, POST or DELETE"),
        }
    }
}

fn with_cookie(value: &str, age: &str) -> Response<Body> {
    let mut response = answer(StatusCode::OK, &json!({}));
    let cookie = format!("{COOKIE_NAME}={value}; Path=/; Secure; HttpOnly; SameSite=Strict; {age}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn answer(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = respond(status, "application/json", value.to_string());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn refuse(status: StatusCode, message: &str) -> Response<Body> {
    let told = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "code": status.as_u16(),
    });
    answer(status, &told)
}
