//! Requests to the API server as plain JSON: no types, so that every kind of every cluster works alike.
//! Connections, TLS and credentials are kube's; paths, errors and warnings are told here, in kubectl's words.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use futures::{AsyncBufRead, TryStreamExt};
use http::header::{ACCEPT, CONTENT_TYPE, WARNING};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::{Body, Connection};
use minik8s_meta::error_chain;
use serde_json::Value;

use crate::error::{Error, Result, ServerError};
use crate::output;

/// How kubectl asks for the columns of `get`.
pub const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const JSON: &str = "application/json";

pub struct Client {
    inner: kube::Client,
    /// Address of the server, for messages.
    pub url: String,
    timeout: Duration,
    /// Warnings that were shown: each is told once.
    warned: Mutex<BTreeSet<String>>,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    accept: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Call {
    pub fn new(method: Method, path: impl Into<String>) -> Call {
        Call {
            method,
            path: path.into(),
            query: Vec::new(),
            accept: JSON,
            content_type: JSON,
            body: Vec::new(),
        }
    }

    pub fn get(path: impl Into<String>) -> Call {
        Call::new(Method::GET, path)
    }

    pub fn query(mut self, name: &str, value: impl Into<String>) -> Call {
        self.query.push((name.to_owned(), value.into()));
        self
    }

    /// Adds the parameter if there is a value.
    pub fn maybe(self, name: &str, value: Option<impl Into<String>>) -> Call {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    pub fn accept(mut self, accept: &'static str) -> Call {
        self.accept = accept;
        self
    }

    pub fn json(mut self, body: &Value) -> Call {
        self.body = body.to_string().into_bytes();
        self
    }

    pub fn body(mut self, content_type: &'static str, body: Vec<u8>) -> Call {
        self.content_type = content_type;
        self.body = body;
        self
    }

    fn uri(&self) -> String {
        if self.query.is_empty() {
            return self.path.clone();
        }
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.query).finish();
        let sign = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{sign}{query}", self.path)
    }

    fn request(&self) -> Result<Request<Vec<u8>>> {
        let mut request =
            Request::builder().method(self.method.clone()).uri(self.uri()).header(ACCEPT, self.accept);
        if !self.body.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        request
            .body(self.body.clone())
            .map_err(|error| Error::plain(format!("cannot ask for {}: {error}", self.path)))
    }
}

impl Client {
    pub fn new(config: kube::Config, timeout: Duration) -> Result<Client> {
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let inner = kube::Client::try_from(config).map_err(|error| Error::plain(error_chain(&error)))?;
        Ok(Client { inner, url, timeout, warned: Mutex::default() })
    }

    /// For requests of others, which are passed on as they are.
    pub fn plain(&self) -> kube::Client {
        self.inner.clone()
    }

    /// The answer as JSON.
    pub async fn send(&self, call: Call) -> Result<Value> {
        let bytes = self.bytes(call).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::plain(format!("the server's answer is no JSON: {error}")))
    }

    pub async fn get(&self, path: impl Into<String>) -> Result<Value> {
        self.send(Call::get(path)).await
    }

    /// None: there is no such object.
    pub async fn find(&self, path: impl Into<String>) -> Result<Option<Value>> {
        match self.get(path).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// The answer as it is.
    pub async fn bytes(&self, call: Call) -> Result<Vec<u8>> {
        let work = async {
            let answer = self.answer(&call).await?;
            let body = answer.into_body().collect().await.map_err(|error| self.trouble(&error))?;
            Ok(body.to_bytes().to_vec())
        };
        if self.timeout.is_zero() {
            return work.await;
        }
        match tokio::time::timeout(self.timeout, work).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::plain(format!(
                "the server at {} did not answer within {:?} (--request-timeout)",
                self.url, self.timeout
            ))),
        }
    }

    /// The answer as it comes: logs and watches. Ends after `--request-timeout`, if there is one.
    pub async fn stream(&self, call: Call) -> Result<impl AsyncBufRead + Unpin + Send + use<>> {
        let call = match self.timeout.as_secs() {
            0 => call,
            seconds => call.query("timeoutSeconds", seconds.to_string()),
        };
        let answer = self.answer(&call).await?;
        Ok(answer.into_body().into_data_stream().map_err(std::io::Error::other).into_async_read())
    }

    /// A WebSocket with channels, for exec, attach and port-forward.
    pub async fn connect(&self, call: Call) -> Result<Connection> {
        self.inner.connect(call.request()?).await.map_err(|error| match error {
            kube::Error::Api(status) => {
                let body = serde_json::to_value(&*status).unwrap_or_default();
                let mut body = body;
                body["kind"] = "Status".into();
                Error::Server(Box::new(ServerError::new(status.code, body.to_string().as_bytes())))
            }
            other => self.trouble(&other),
        })
    }

    async fn answer(&self, call: &Call) -> Result<Response<Body>> {
        let request = call.request()?.map(Body::from);
        let answer = self.inner.send(request).await.map_err(|error| self.trouble(&error))?;
        self.show_warnings(answer.headers());
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        Err(Error::Server(Box::new(ServerError::new(status.as_u16(), &body))))
    }

    fn trouble(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        let text = error_chain(error);
        let host = self.url.trim_start_matches("https://").trim_start_matches("http://");
        if text.contains("Connection refused") {
            return Error::Bare(format!(
                "The connection to the server {host} was refused - did you specify the right host or port?"
            ));
        }
        Error::Bare(format!("Unable to connect to the server: {text}"))
    }

    /// The server's warnings are `299 - "text"`.
    fn show_warnings(&self, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let text = header.to_str().unwrap_or_default();
            let quoted = text.split_once('"').map(|(_, text)| text.strip_suffix('"').unwrap_or(text));
            let Some(text) = quoted else { continue };
            let text = text.replace("\\\"", "\"").replace("\\\\", "\\");
            let is_new = self.warned.lock().is_ok_and(|mut warned| warned.insert(text.clone()));
            if is_new {
                output::remark(format_args!("Warning: {text}"));
            }
        }
    }

    pub fn was_warned(&self) -> bool {
        self.warned.lock().is_ok_and(|warned| !warned.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_escaped() {
        let call =
            Call::get("/api/v1/pods").query("labelSelector", "a in (b,c)").maybe("limit", None::<String>);
        assert_eq!(call.uri(), "/api/v1/pods?labelSelector=a+in+%28b%2Cc%29");
        assert_eq!(Call::get("/readyz?verbose").query("a", "b").uri(), "/readyz?verbose&a=b");
    }
}
