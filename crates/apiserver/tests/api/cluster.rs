//! An API server of the test's own, without sockets: requests go straight into it.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use minik8s_api::Extension;
use minik8s_apiserver::{Config, LocalService, Server};
use minik8s_auth::User;
use minik8s_auth::pki::{Pki, ServingNames};
use minik8s_store::{Options, RedbStore, Store};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

/// Nothing here takes longer, even on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
pub const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

pub struct Cluster {
    pub server: Server,
    pub store: Arc<RedbStore>,
    _dir: TempDir,
}

/// What a test may want otherwise.
pub struct Setup {
    pub store: Options,
    pub service_cidr: &'static str,
    pub tokens: &'static str,
    pub external_ips: bool,
    pub extension: Extension,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            store: Options::default(),
            service_cidr: "10.96.0.0/12",
            tokens: "",
            external_ips: false,
            extension: Extension::default(),
        }
    }
}

impl Cluster {
    pub async fn start() -> Cluster {
        Cluster::with(Setup::default()).await
    }

    /// A fresh cluster whose namespace `default` has its service account, which a controller would make.
    pub async fn with(setup: Setup) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let store = RedbStore::open(dir.path().join("store.redb"), setup.store).unwrap();
        let names = ServingNames {
            host_name: "test".to_owned(),
            addresses: Vec::new(),
            extra_names: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            service_address: None,
        };
        let pki = Arc::new(Pki::load_or_create(&dir.path().join("pki"), &names, Timestamp::now()).unwrap());
        let token_auth_file = (!setup.tokens.is_empty()).then(|| {
            let path = dir.path().join("tokens.csv");
            std::fs::write(&path, setup.tokens).unwrap();
            path
        });
        let config = Config {
            bind: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            advertise: IpAddr::V4(Ipv4Addr::LOCALHOST),
            service_cidr: setup.service_cidr.parse().unwrap(),
            cluster_domain: "cluster.local".to_owned(),
            token_auth_file,
            allow_external_ips: setup.external_ips,
            kinds: minik8s_kinds::all(),
            has_peers: false,
            extension: setup.extension,
        };
        let server = Server::start(config, store.clone(), pki).await.unwrap();
        let cluster = Cluster { server, store, _dir: dir };
        let account = json!({"metadata": {"name": "default"}});
        cluster.admin().post("/api/v1/namespaces/default/serviceaccounts", account).await.ok();
        cluster
    }

    pub fn admin(&self) -> Client {
        self.user("admin", &["system:masters"])
    }

    /// Someone who is authenticated but has no rights of their own.
    pub fn user(&self, name: &str, groups: &[&str]) -> Client {
        self.as_user(User::authenticated(name, groups))
    }

    pub fn as_user(&self, user: User) -> Client {
        Client { service: self.server.local(user), headers: HeaderMap::new() }
    }

    /// Forgets all history before now.
    pub async fn compact(&self) {
        self.store.compact(self.store.revision().await.unwrap()).await.unwrap();
    }
}

#[derive(Clone)]
pub struct Client {
    service: LocalService,
    headers: HeaderMap,
}

impl Client {
    /// The same client, sending this header with every request.
    pub fn header(&self, name: &'static str, value: &str) -> Client {
        let mut client = self.clone();
        client.headers.append(name, value.parse().unwrap());
        client
    }

    pub fn accepting(&self, accept: &str) -> Client {
        let mut client = self.clone();
        client.headers.insert(ACCEPT, accept.parse().unwrap());
        client
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "", Bytes::new()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, "application/json", body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, "application/json", body.to_string()).await
    }

    pub async fn patch(&self, kind: &str, path: &str, body: Value) -> Answer {
        self.send(Method::PATCH, path, kind, body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "", Bytes::new()).await
    }

    pub async fn delete_with(&self, path: &str, options: Value) -> Answer {
        self.send(Method::DELETE, path, "application/json", options.to_string()).await
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        let what = format!("{method} {path}");
        let response = self.open(method, path, content_type, body.into()).await;
        let (parts, body) = response.into_parts();
        let collected = tokio::time::timeout(TIMEOUT, body.collect()).await;
        let bytes =
            collected.unwrap_or_else(|_| panic!("{what}: the answer does not end")).unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { what, code: parts.status.as_u16(), headers: parts.headers, bytes, body }
    }

    async fn open(&self, method: Method, path: &str, content_type: &str, body: Bytes) -> Response<AnyBody> {
        let what = format!("{method} {path}");
        let mut request = Request::builder().method(method).uri(path).body(Full::new(body)).unwrap();
        request.headers_mut().extend(self.headers.clone());
        if !content_type.is_empty() {
            request.headers_mut().insert(CONTENT_TYPE, content_type.parse().unwrap());
        }
        let answered = tokio::time::timeout(TIMEOUT, self.service.clone().oneshot(request)).await;
        answered.unwrap_or_else(|_| panic!("{what}: no answer")).unwrap()
    }

    /// Opens a watch, which must be answered with 200.
    pub async fn watch(&self, path: &str) -> Watching {
        let response = self.open(Method::GET, path, "", Bytes::new()).await;
        let code = response.status();
        let mut watching = Watching { body: response.into_body(), pending: Vec::new() };
        if code != 200 {
            let text = watching.rest().await;
            panic!("GET {path}: {code} {text}");
        }
        watching
    }
}

/// A whole answer.
pub struct Answer {
    pub what: String,
    pub code: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
    pub body: Value,
}

impl Answer {
    /// The body of a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{}: {} {}", self.what, self.code, self.text());
        self.body
    }

    /// The `Status` of a refusal with this code and reason.
    #[track_caller]
    pub fn refused(self, code: u16, reason: &str) -> Value {
        assert_eq!(
            (self.code, self.body["reason"].as_str()),
            (code, Some(reason)),
            "{}: {}",
            self.what,
            self.text()
        );
        self.assert_status();
        self.body
    }

    /// A refusal as a client understands it: a `Status` that says the same as the header.
    #[track_caller]
    pub fn assert_status(&self) {
        let body = &self.body;
        let text = format!("{}: {} {}", self.what, self.code, self.text());
        assert_eq!((&body["kind"], &body["apiVersion"]), (&json!("Status"), &json!("v1")), "{text}");
        assert_eq!((&body["status"], &body["code"]), (&json!("Failure"), &json!(self.code)), "{text}");
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{text}");
        assert!(body["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{text}");
    }

    /// The texts of the `Warning` headers.
    pub fn warnings(&self) -> Vec<String> {
        let all = self.headers.get_all("warning").iter();
        all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    /// All of a body that is not JSON.
    pub fn text_whole(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        text.chars().take(2000).collect()
    }
}

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

/// An open watch.
pub struct Watching {
    body: AnyBody,
    pending: Vec<u8>,
}

impl Watching {
    /// The next line; fails when none comes or the watch has ended.
    pub async fn next(&mut self) -> (String, Value) {
        self.poll(TIMEOUT).await.expect("no event came").expect("the watch has ended")
    }

    /// The next line, which must be of this type: its object.
    pub async fn expect(&mut self, ty: &str) -> Value {
        let (got, object) = self.next().await;
        assert_eq!(got, ty, "{object}");
        object
    }

    /// The name of the next object, which must come in an event of this type.
    pub async fn expect_name(&mut self, ty: &str) -> String {
        let object = self.expect(ty).await;
        object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
    }

    /// Nothing comes for a moment.
    pub async fn expect_nothing(&mut self) {
        if let Some(got) = self.poll(Duration::from_millis(60)).await {
            panic!("unexpected {got:?}");
        }
    }

    /// The watch ends without another event.
    pub async fn expect_end(&mut self) {
        let ended = self.poll(TIMEOUT).await.expect("the watch goes on");
        assert_eq!(ended, None);
    }

    /// None: nothing came in time. Some(None): the watch has ended.
    async fn poll(&mut self, timeout: Duration) -> Option<Option<(String, Value)>> {
        loop {
            if let Some(end) = self.pending.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line).expect("a line of JSON");
                let ty = event["type"].as_str().unwrap_or_default().to_owned();
                return Some(Some((ty, event["object"].take())));
            }
            match tokio::time::timeout(timeout, self.body.frame()).await {
                Err(_) => return None,
                Ok(None) => return Some(None),
                Ok(Some(Ok(frame))) => self.pending.extend_from_slice(&frame.into_data().unwrap_or_default()),
            }
        }
    }

    async fn rest(&mut self) -> String {
        while let Some(Ok(frame)) = self.body.frame().await {
            self.pending.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// `metadata.name` of each item of a list.
pub fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| item["metadata"]["name"].as_str().unwrap_or_default()).collect()
}

pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}
