//! `minik8s function invoke`: a call through the router of a node.

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::Value;
use tokio::net::TcpStream;

use super::InvokeFlags;
use crate::node::HTTP_PORT_ANNOTATION;

pub async fn run(client: &Client, namespace: &str, flags: InvokeFlags) -> anyhow::Result<()> {
    let body = body(&flags)?;
    let router = match &flags.router {
        Some(url) => address_of(url)?,
        None => router(client).await?,
    };
    let begun = Instant::now();
    let (status, headers, answer) = post(&router, &format!("/fn/{namespace}/{}", flags.name), body, &flags)
        .await
        .with_context(|| format!("cannot call function {} at {router}", flags.name))?;
    if flags.timing {
        let took = begun.elapsed().as_secs_f64() * 1000.0;
        eprintln!("{} in {took:.1} ms{}", status.as_u16(), instance(&headers));
    }
    if flags.detached && status == StatusCode::ACCEPTED {
        let told: Value = serde_json::from_slice(&answer)?;
        return Ok(crate::output::line(told["id"].as_str().unwrap_or_default())?);
    }
    if status.is_success() {
        let mut out = std::io::stdout();
        out.write_all(&answer)?;
        if !answer.ends_with(b"\n") {
            out.write_all(b"\n")?;
        }
        return Ok(());
    }
    bail!("{}", failure(namespace, &flags.name, status, &answer))
}

/// Which instance it was, and whether it had to be started first.
fn instance(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match (text("minik8s-instance"), text("minik8s-start")) {
        (Some(pod), Some(start)) => format!(", {start}, by pod {pod}"),
        _ => String::new(),
    }
}

/// What went wrong, in the words of the function or the router.
fn failure(namespace: &str, name: &str, status: StatusCode, answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let Ok(told) = serde_json::from_slice::<Value>(answer) else {
        return match status {
            StatusCode::NOT_FOUND => {
                format!("there is no function {name} in namespace {namespace}; see `minik8s function list`")
            }
            _ => format!("function {name} answered {}: {}", status.as_u16(), text.trim()),
        };
    };
    let word = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
    if word("errorMessage").is_empty() {
        return format!("function {name} answered {}: {}", status.as_u16(), text.trim());
    }
    let trace: Vec<&str> = told["trace"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut lines = format!("{} ({}): {}", word("errorType"), status.as_u16(), word("errorMessage"));
    for line in trace {
        lines += &format!("\n  {line}");
    }
    lines
}

fn body(flags: &InvokeFlags) -> anyhow::Result<Vec<u8>> {
    if let Some(file) = &flags.params {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let value: Value =
            serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", file.display()))?;
        return Ok(serde_json::to_vec(&value)?);
    }
    match flags.data.as_deref() {
        Some(data) => match data.strip_prefix('@') {
            Some(file) => std::fs::read(file).with_context(|| format!("cannot read {file}")),
            None => Ok(data.as_bytes().to_vec()),
        },
        None => Ok(Vec::new()),
    }
}

/// `HOST:PORT` of a URL.
fn address_of(url: &str) -> anyhow::Result<String> {
    let uri: http::Uri = url.parse().with_context(|| format!("--router {url} is no URL"))?;
    let authority = uri.authority().filter(|_| uri.scheme_str().is_none_or(|scheme| scheme == "http"));
    let authority = authority.with_context(|| format!("--router {url}: give http://HOST[:PORT]"))?;
    Ok(format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)))
}

/// The router of a ready node.
async fn router(client: &Client) -> anyhow::Result<String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await;
    let nodes =
        nodes.context("cannot list nodes to find a router; name one with --router http://HOST:PORT")?;
    let found = nodes.items.iter().find_map(|node| {
        let status = node.status.as_ref()?;
        let is_ready =
            status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
        let address = status.addresses.iter().flatten().find(|address| address.type_ == "InternalIP")?;
        let annotations = node.metadata.annotations.as_ref();
        let port = annotations.and_then(|all| all.get(HTTP_PORT_ANNOTATION)).map_or("80", String::as_str);
        let host = match address.address.contains(':') {
            true => format!("[{}]", address.address),
            false => address.address.clone(),
        };
        (is_ready && port != "0").then(|| format!("{host}:{port}"))
    });
    found.context("no node with a router is ready")
}

async fn post(
    address: &str,
    path: &str,
    body: Vec<u8>,
    flags: &InvokeFlags,
) -> anyhow::Result<(StatusCode, HeaderMap, Bytes)> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::post(path).header("host", address).header("content-type", "application/json");
    let request = if flags.timing { request.header("minik8s-tell", "instance") } else { request };
    let request = if flags.detached { request.header("prefer", "respond-async") } else { request };
    let request = request.body(Full::new(Bytes::from(body)))?;
    let answer = sender.send_request(request).await?;
    let (parts, body) = answer.into_parts();
    Ok((parts.status, parts.headers, body.collect().await?.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_the_function_and_the_cause() {
        let check = |status: u16, answer: &str, expected: &str| {
            let text = failure("ns", "f", StatusCode::from_u16(status).unwrap(), answer.as_bytes());
            assert!(text.contains(expected), "{text}");
        };
        check(404, "404 Not Found: nothing is routed", "there is no function f in namespace ns");
        check(
            500,
            r#"{"errorType":"ValueError","errorMessage":"bad","trace":["line 3"]}"#,
            "ValueError (500): bad\n  line 3",
        );
        check(
            503,
            r#"{"errorType":"Unschedulable","errorMessage":"no node"}"#,
            "Unschedulable (503): no node",
        );
        check(418, "short", "answered 418: short");
    }

    #[test]
    fn routers_are_urls() {
        assert_eq!(address_of("http://10.0.0.1").unwrap(), "10.0.0.1:80");
        assert_eq!(address_of("http://h:8080/").unwrap(), "h:8080");
        assert!(address_of("https://h").is_err());
    }
}
