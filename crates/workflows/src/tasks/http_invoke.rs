//! `http:invoke`: a request to a Service of the run's namespace, or to a public address.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, Uri};
use kube::Client;
use rustls::pki_types::ServerName;
use serde_json::{Map, Value};

use super::outgoing::{self, Target};
use super::{Egress, Job, TaskError, response};

/// AWS' limit.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What the request itself decides.
const OWN_HEADERS: &[&str] =
    &["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "keep-alive"];

/// A request, computed from the task's parameters. Pure.
#[derive(Debug)]
struct Call {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

pub async fn run(client: &Client, egress: &Egress, job: &Job) -> Result<Value, TaskError> {
    let mut call = Call::read(&job.request.parameters)?;
    let key = HeaderValue::from_str(&job.idempotency_key());
    if let Ok(key) = key {
        call.headers.entry("idempotency-key").or_insert(key);
    }
    let sent = async {
        match service_of(call.uri.host().unwrap_or_default(), &job.context.namespace)? {
            Some(service) => through_proxy(client, &job.context.namespace, &service, call).await,
            None => direct(egress, call).await,
        }
    };
    match tokio::time::timeout(TIMEOUT, sent).await {
        Ok(answer) => answer,
        Err(_) => Err(socket("the endpoint did not answer within 60 seconds")),
    }
}

impl Call {
    fn read(parameters: &Value) -> Result<Self, TaskError> {
        let wrong = |what: &str| TaskError::new("States.Runtime", format!("http:invoke: {what}"));
        let text = |name: &str| parameters[name].as_str();
        let endpoint = text("ApiEndpoint").ok_or_else(|| wrong("ApiEndpoint is required: a URL"))?;
        let mut url = endpoint.to_owned();
        if let Some(query) = query(&parameters["QueryParameters"]) {
            url += if url.contains('?') { "&" } else { "?" };
            url += &query;
        }
        let uri =
            Uri::from_str(&url).map_err(|error| wrong(&format!("ApiEndpoint {endpoint:?}: {error}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err(wrong(&format!(
                "ApiEndpoint {endpoint:?} must begin with http:// or https:// and a host"
            )));
        }
        let method = text("Method")
            .ok_or_else(|| wrong("Method is required: GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS"))?;
        let method = Method::from_str(method).map_err(|_| wrong(&format!("Method {method:?} is none")))?;
        if !parameters["Authentication"].is_null() || !parameters["InvocationConfig"].is_null() {
            return Err(wrong(
                "connections of EventBridge are not known here: leave Authentication and InvocationConfig out and \
                 set Headers",
            ));
        }
        let mut headers = headers(&parameters["Headers"]).map_err(|problem| wrong(&problem))?;
        let body = match &parameters["RequestBody"] {
            Value::Null => Bytes::new(),
            Value::String(text) if headers.contains_key(CONTENT_TYPE) => Bytes::from(text.clone()),
            body => Bytes::from(body.to_string()),
        };
        if !body.is_empty() {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        }
        Ok(Call { method, uri, headers, body })
    }

    fn path(&self) -> &str {
        self.uri.path_and_query().map_or("/", |path| path.as_str())
    }
}

fn headers(given: &Value) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given.as_object().into_iter().flatten() {
        let key = HeaderName::from_str(name).map_err(|_| format!("{name:?} is no name of a header"))?;
        let reserved = ["proxy-", "impersonate-", "x-remote-", "x-forwarded-"];
        if OWN_HEADERS.contains(&key.as_str()) || reserved.iter().any(|begin| key.as_str().starts_with(begin))
        {
            return Err(format!("the header {name} cannot be set"));
        }
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value =
            HeaderValue::from_str(&shown).map_err(|_| format!("the value of the header {name} is none"))?;
        headers.insert(key, value);
    }
    Ok(headers)
}

/// `a=1&b=2&b=3`, encoded.
fn query(parameters: &Value) -> Option<String> {
    let parameters: &Map<String, Value> = parameters.as_object().filter(|map| !map.is_empty())?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let pairs = parameters.iter().flat_map(|(name, value)| match value {
        Value::Array(values) => values.iter().map(|value| (name.clone(), text(value))).collect(),
        value => vec![(name.clone(), text(value))],
    });
    let encoded = pairs.map(|(name, value)| format!("{}={}", encode(&name), encode(&value)));
    Some(encoded.collect::<Vec<_>>().join("&"))
}

fn encode(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The Service that a host names, as in a pod: `NAME`, `NAME.NAMESPACE.svc` and longer. Those of other namespaces are
/// out of reach.
fn service_of(host: &str, namespace: &str) -> Result<Option<String>, TaskError> {
    let host = host.to_ascii_lowercase();
    let host = host.trim_end_matches('.');
    let parts: Vec<&str> = host.split('.').collect();
    let (name, of) = match parts[..] {
        ["localhost"] => return Ok(None),
        [name] if name.starts_with(|first: char| first.is_ascii_alphabetic()) => (name, namespace),
        [name, of, "svc", ..] => (name, of),
        _ => return Ok(None),
    };
    if of != namespace {
        let cause = format!("{host}: only Services of the run's own namespace {namespace} can be reached");
        return Err(TaskError::new("States.Http.Forbidden", cause));
    }
    Ok(Some(name.to_owned()))
}

/// Through the API server, which knows the Service's endpoints, on whatever machine this is.
async fn through_proxy(
    client: &Client,
    namespace: &str,
    service: &str,
    call: Call,
) -> Result<Value, TaskError> {
    if call.headers.contains_key(AUTHORIZATION) {
        let cause =
            "http:invoke: the header Authorization is not passed on to Services: use one of another name";
        return Err(TaskError::new("States.Runtime", cause));
    }
    let secure = call.uri.scheme() == Some(&Scheme::HTTPS);
    let port = call.uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let scheme = if secure { "https:" } else { "" };
    let uri =
        format!("/api/v1/namespaces/{namespace}/services/{scheme}{service}:{port}/proxy{}", call.path());
    let mut request = Request::builder().method(call.method).uri(uri);
    if let Some(headers) = request.headers_mut() {
        headers.extend(call.headers);
    }
    let request =
        request.body(kube::client::Body::from(call.body)).map_err(|error| socket(error.to_string()))?;
    let (parts, body) = client.send(request).await.map_err(|error| socket(error.to_string()))?.into_parts();
    let body = outgoing::whole(body).await.map_err(|error| socket(error.to_string()))?;
    response::output(parts.status, &parts.headers, &body)
}

/// To an address that was looked up once, checked, and then connected to.
async fn direct(egress: &Egress, call: Call) -> Result<Value, TaskError> {
    let secure = call.uri.scheme() == Some(&Scheme::HTTPS);
    let host = call.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = call.uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let address = resolve(&host, port, egress).await?;
    let tls = match secure {
        true => Some(ServerName::try_from(host.clone()).map_err(|error| socket(error.to_string()))?),
        false => None,
    };
    let authority = call.uri.authority().map(|authority| authority.host().to_owned()).unwrap_or(host);
    let named = call.uri.port().map_or(authority.clone(), |port| format!("{authority}:{port}"));
    let mut request = Request::builder().method(&call.method).uri(call.path()).header(HOST, named);
    if let Some(headers) = request.headers_mut() {
        headers.extend(call.headers.clone());
    }
    let request = request.body(call.body.clone()).map_err(|error| socket(error.to_string()))?;
    let answer =
        outgoing::send(Target { address, tls }, request).await.map_err(|error| socket(error.to_string()))?;
    response::output(answer.status, &answer.headers, &answer.body)
}

async fn resolve(host: &str, port: u16, egress: &Egress) -> Result<SocketAddr, TaskError> {
    let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) => tokio::net::lookup_host((host, port))
            .await
            .map_err(|error| socket(format!("{host}: {error}")))?
            .collect(),
    };
    // All of them: a name that leads inside by chance must not work by chance.
    for address in &found {
        if let Some(refusal) = egress.refusal(*address) {
            return Err(TaskError::new(
                "States.Http.Forbidden",
                format!("{host} is {}: {refusal}", address.ip()),
            ));
        }
    }
    found.first().copied().ok_or_else(|| socket(format!("{host} has no address")))
}

fn socket(cause: impl Into<String>) -> TaskError {
    TaskError::new("States.Http.Socket", cause)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn call_is_read_from_parameters() {
        let call = Call::read(&json!({
            "ApiEndpoint": "http://web.shop.svc:8080/a?x=1", "Method": "POST", "QueryParameters": {"q": ["a b", 2]},
            "Headers": {"X-One": 1}, "RequestBody": {"a": null},
        }))
        .unwrap();
        assert_eq!(call.path(), "/a?x=1&q=a%20b&q=2");
        assert_eq!(&call.body[..], b"{\"a\":null}");
        assert_eq!(call.headers["x-one"], "1");
        assert_eq!(call.headers[CONTENT_TYPE], "application/json");
        for (parameters, told) in [
            (json!({"Method": "GET"}), "ApiEndpoint is required"),
            (json!({"ApiEndpoint": "ftp://a/", "Method": "GET"}), "must begin with http://"),
            (json!({"ApiEndpoint": "http://a/"}), "Method is required"),
            (json!({"ApiEndpoint": "http://a/", "Method": "GET", "Headers": {"Host": "b"}}), "cannot be set"),
            (json!({"ApiEndpoint": "http://a/", "Method": "GET", "Headers": {"a": "b\r\nc: d"}}), "is none"),
        ] {
            let cause = Call::read(&parameters).unwrap_err().cause.unwrap();
            assert!(cause.contains(told), "{cause}");
        }
    }

    #[test]
    fn services_of_other_namespaces_are_out_of_reach() {
        for (host, expected) in [
            ("web.shop.svc", Some(Some("web"))),
            ("WEB.shop.svc.cluster.local.", Some(Some("web"))),
            ("web.shop.svc.example.org", Some(Some("web"))),
            ("web.bank.svc", None),
            ("kubernetes.default.svc.cluster.local", None),
            ("example.org", Some(None)),
            ("web", Some(Some("web"))),
            ("localhost", Some(None)),
            ("2130706433", Some(None)),
            ("[::1]", Some(None)),
        ] {
            let found = service_of(host, "shop").ok();
            assert_eq!(found.as_ref().map(Option::as_deref), expected, "{host}");
        }
    }

    #[tokio::test]
    async fn names_of_this_machine_are_refused_whatever_they_are_called() {
        for host in ["127.0.0.1", "localhost", "::1", "169.254.169.254", "2130706433"] {
            let error = resolve(host, 80, &Egress::default()).await.unwrap_err();
            assert!(error.error.starts_with("States.Http."), "{host}: {error:?}");
        }
    }
}
