//! What minik8s is compared with, on the same disk and in the same run.

use std::convert::Infallible;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Puts per second of a real etcd with 64 clients and values of that size.
pub async fn etcd_puts(clients: usize, size: usize, time: Duration) -> anyhow::Result<f64> {
    let directory = tempfile::tempdir_in(".")?;
    let free =
        || -> anyhow::Result<u16> { Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port()) };
    let (client_url, peer_url) =
        (format!("http://127.0.0.1:{}", free()?), format!("http://127.0.0.1:{}", free()?));
    let mut child = Command::new("etcd")
        .args([
            "--name",
            "bench",
            "--listen-client-urls",
            &client_url,
            "--advertise-client-urls",
            &client_url,
        ])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("bench={peer_url}"), "--data-dir"])
        .arg(directory.path().join("etcd"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run etcd: install etcd-server")?;
    let result = puts(&client_url, clients, size, time).await;
    child.kill()?;
    child.wait()?;
    result
}

async fn puts(url: &str, clients: usize, size: usize, time: Duration) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut first = loop {
        match etcd_client::Client::connect([url], None).await {
            Ok(client) => break client,
            Err(e) if started.elapsed() > Duration::from_secs(20) => return Err(e.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    while first.put("warm", "up", None).await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let end = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..clients {
        let url = url.to_owned();
        tasks.spawn(async move {
            let mut connection = etcd_client::Client::connect([url], None).await?;
            let value = "x".repeat(size);
            let mut done = 0u64;
            while Instant::now() < end {
                connection.put(format!("/bench/{client}/{done}"), value.as_str(), None).await?;
                done += 1;
            }
            Ok::<u64, etcd_client::Error>(done)
        });
    }
    let mut total = 0;
    while let Some(done) = tasks.join_next().await {
        total += done??;
    }
    Ok(total as f64 / time.as_secs_f64())
}

/// Serves one file's bytes over TLS with hyper, as a static file server would; returns its port.
pub async fn static_server(content: Bytes, tls: TlsAcceptor) -> anyhow::Result<u16> {
    let directory = tempfile::tempdir_in(".")?;
    let file = directory.path().join("list.json");
    std::fs::write(&file, &content)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let file = Arc::new((directory, file));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, file) = (tls.clone(), file.clone());
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = hyper::service::service_fn(move |_| {
                    let file = file.clone();
                    async move {
                        let bytes = tokio::fs::read(&file.1).await.unwrap_or_default();
                        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(bytes))))
                    }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Ok(port)
}
