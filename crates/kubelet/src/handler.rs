//! What probes and lifecycle hooks do to a container: run a command, ask for a page, open a connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use nix::sched::{CloneFlags, setns};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use crate::tls;

/// Nobody reads more of a probed page.
const LARGEST_PAGE: usize = 10 << 10;

/// The answer to a request: status code and the beginning of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub status: u16,
    pub body: String,
}

/// A port by number or by its name in the container's spec.
pub fn port(port: &IntOrString, container: &core::Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|p| p.name.as_deref() == Some(name));
            named.map(|p| p.container_port).or_else(|| name.parse().ok())
        }
    };
    let number = number.and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
    number.ok_or_else(|| format!("couldn't find port: {port:?}"))
}

/// Where connections to a container begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The network namespace (a file) of a pod whose proxy takes whatever comes from outside. A probe is about the
    /// container, so it begins inside, where nothing stands between.
    pub netns: Option<PathBuf>,
}

pub async fn connect(host: &str, port: u16, origin: &Origin, timeout: Duration) -> Result<TcpStream, String> {
    let host = host.trim_matches(['[', ']']);
    let inside = origin.netns.as_ref().and_then(|netns| Some((netns, host.parse::<IpAddr>().ok()?)));
    let connecting = async {
        match inside {
            Some((netns, ip)) => socket_in(netns, ip)?.connect(SocketAddr::from((ip, port))).await,
            None => TcpStream::connect((host, port)).await,
        }
    };
    match tokio::time::timeout(timeout, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(format!("dial tcp {}: connect: {error}", authority(host, port))),
        Err(_) => Err(format!("dial tcp {}: i/o timeout", authority(host, port))),
    }
}

/// A socket is of the namespace that it was made in. The thread that went there ends, so that nothing else does.
fn socket_in(netns: &Path, to: IpAddr) -> io::Result<TcpSocket> {
    let namespace = std::fs::File::open(netns)?;
    let made = std::thread::spawn(move || {
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
        if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
    });
    made.join().map_err(|_| io::Error::other("the thread for it ended"))?
}

/// Certificates are not checked: the container is known, its names are not.
pub async fn http_get(
    action: &core::HTTPGetAction,
    container: &core::Container,
    (pod_ip, origin): (&str, &Origin),
    agent: &'static str,
    timeout: Duration,
) -> Result<Page, String> {
    let port = port(&action.port, container)?;
    let host = action.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_ip).to_owned();
    let secure = action.scheme.as_deref() == Some("HTTPS");
    let path = action.path.as_deref().unwrap_or("/");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let request = request(&host, port, &path, action.http_headers.as_deref().unwrap_or_default(), agent)?;
    let url = format!("{}://{}{path}", if secure { "https" } else { "http" }, authority(&host, port));
    let exchange = async {
        let origin = if host == pod_ip { origin } else { &Origin::default() };
        let stream = connect(&host, port, origin, timeout).await?;
        if !secure {
            return send(stream, request, LARGEST_PAGE).await;
        }
        let name =
            ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|e| e.to_string())?;
        let connector = TlsConnector::from(Arc::new(tls::trusting_client()));
        let stream = connector.connect(name, stream).await.map_err(|e| e.to_string())?;
        send(stream, request, LARGEST_PAGE).await
    };
    match tokio::time::timeout(timeout, exchange).await {
        Ok(result) => result.map_err(|error| format!("Get \"{url}\": {error}")),
        Err(_) => Err(format!(
            "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        )),
    }
}

/// A page of at most so many bytes, over plain HTTP. A longer one is as good as none.
pub async fn page(
    (host, port): (&str, u16),
    path: &str,
    agent: &'static str,
    timeout: Duration,
    largest: usize,
) -> Result<Page, String> {
    let request = request(host, port, path, &[], agent)?;
    let exchange =
        async { send(connect(host, port, &Origin::default(), timeout).await?, request, largest).await };
    tokio::time::timeout(timeout, exchange).await.map_err(|_| "no answer in time".to_owned())?
}

/// Host and port as URLs have them: an IPv6 address is in brackets.
pub fn authority(host: &str, port: u16) -> String {
    let host = host.trim_matches(['[', ']']);
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn request(
    host: &str,
    port: u16,
    path: &str,
    headers: &[core::HTTPHeader],
    agent: &'static str,
) -> Result<Request<Empty<Bytes>>, String> {
    let uri: Uri = path.parse().map_err(|e| format!("invalid path {path:?}: {e}"))?;
    let authority = authority(host, port);
    let mut request = Request::get(uri)
        .header("user-agent", agent)
        .header("accept", "*/*")
        .header("connection", "close")
        .body(Empty::new())
        .map_err(|e| e.to_string())?;
    for header in headers {
        let name = HeaderName::try_from(&header.name).map_err(|e| e.to_string())?;
        let value = HeaderValue::try_from(&header.value).map_err(|e| e.to_string())?;
        request.headers_mut().insert(name, value);
    }
    let host_value = HeaderValue::try_from(authority).map_err(|e| e.to_string())?;
    request.headers_mut().entry("host").or_insert(host_value);
    Ok(request)
}

async fn send<S>(stream: S, request: Request<Empty<Bytes>>, largest: usize) -> Result<Page, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|e| e.to_string())?;
    // Ends with the exchange: the connection is closed when the body was read or dropped.
    let connection = tokio::spawn(connection);
    let result = async {
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), largest).collect().await;
        let body = body.map(|b| b.to_bytes()).unwrap_or_default();
        Ok(Page { status, body: String::from_utf8_lossy(&body).into_owned() })
    };
    let result = result.await;
    connection.abort();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports() {
        let container = core::Container {
            ports: Some(vec![core::ContainerPort {
                name: Some("web".into()),
                container_port: 8080,
                ..Default::default()
            }]),
            ..Default::default()
        };
        let check = |given: IntOrString, want: Option<u16>| {
            assert_eq!(port(&given, &container).ok(), want, "{given:?}");
        };
        check(IntOrString::Int(80), Some(80));
        check(IntOrString::Int(0), None);
        check(IntOrString::Int(70_000), None);
        check(IntOrString::String("web".into()), Some(8080));
        check(IntOrString::String("81".into()), Some(81));
        check(IntOrString::String("none".into()), None);
    }

    #[tokio::test]
    async fn pages_are_fetched() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = vec![0; 1024];
            let length = stream.read(&mut seen).await.unwrap();
            stream.write_all(b"HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
            String::from_utf8_lossy(&seen[..length]).to_lowercase()
        });
        let action = core::HTTPGetAction {
            port: IntOrString::Int(port.into()),
            path: Some("health?x=1".into()),
            http_headers: Some(vec![core::HTTPHeader { name: "X-A".into(), value: "b".into() }]),
            ..Default::default()
        };
        let (timeout, origin) = (Duration::from_secs(5), Origin::default());
        let here = ("127.0.0.1", &origin);
        let page = http_get(&action, &core::Container::default(), here, "test/1", timeout).await.unwrap();
        assert_eq!(page, Page { status: 503, body: "no".into() });
        let seen = server.await.unwrap();
        assert!(seen.starts_with("get /health?x=1 http/1.1"), "{seen}");
        assert!(seen.contains("x-a: b") && seen.contains("user-agent: test/1"), "{seen}");
        let error =
            http_get(&action, &core::Container::default(), here, "test/1", timeout).await.unwrap_err();
        assert!(error.contains("refused"), "{error}");
    }
}
