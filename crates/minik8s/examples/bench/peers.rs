//! What minik8s is compared with, on the same disk and in the same run.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

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

/// nginx with one file, over TLS; ended when dropped.
pub struct Nginx {
    pub port: u16,
    process: Child,
    _directory: TempDir,
}

impl Nginx {
    pub const PATH: &str = "/list.json";

    pub async fn serve(content: &[u8], certificate: &str, key: &str) -> anyhow::Result<Nginx> {
        let directory = tempfile::tempdir_in(".")?;
        let folder = directory.path().canonicalize()?;
        std::fs::write(folder.join("list.json"), content)?;
        std::fs::write(folder.join("cert.pem"), certificate)?;
        std::fs::write(folder.join("key.pem"), key)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // Its workers would become somebody who may not read here.
        let user = if nix::unistd::geteuid().is_root() { "user root;" } else { "" };
        // As Debian ships it, with what makes large files fast.
        let config = format!(
            "{user} worker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/error.log;\n\
             events {{ worker_connections 64; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;\n\
               client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};\n\
               uwsgi_temp_path {dir}; scgi_temp_path {dir};\n\
               server {{ listen 127.0.0.1:{port} ssl; root {dir}; default_type application/json;\n\
                 ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem; }} }}\n",
            dir = folder.display()
        );
        let path = folder.join("nginx.conf");
        std::fs::write(&path, config)?;
        let process = Command::new("nginx")
            .arg("-c")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run nginx: install nginx-light")?;
        let nginx = Nginx { port, process, _directory: directory };
        let begun = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            let log = || std::fs::read_to_string(folder.join("error.log")).unwrap_or_default();
            ensure!(begun.elapsed() < Duration::from_secs(10), "nginx does not answer: {}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The signal that ends its workers, too.
        if let Ok(pid) = i32::try_from(self.process.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let _ = self.process.wait();
    }
}
