//! What a warm call costs, from the router to the handler and back, against the same handler in gunicorn behind nginx: CPU
//! time of every process on the way, in turns, over kept connections.
//!
//! gunicorn keeps connections only with threads, so it has as many processes as the function has, of one thread each.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::http::Connection;
use crate::process::{Process, free_port, is_installed, median};
use crate::{Bench, PAUSE, until};

/// As many as the function takes at once.
const CLIENTS: usize = 8;
const CALLS: usize = 500;
const ROUNDS: usize = 5;
const APP: &str = "
import json
def app(environ, start_response):
    body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
    answer = json.dumps(json.loads(body)).encode()
    start_response('200 OK', [('content-type', 'application/json'), ('content-length', str(len(answer)))])
    return [answer]
";

impl Bench<'_> {
    pub async fn against_gunicorn(&self) -> Result<String> {
        if !is_installed("gunicorn", "--version") || !is_installed("nginx", "-v") {
            return Ok("CPU of a warm call: nginx-light and gunicorn are not installed\n".to_owned());
        }
        let dir = tempfile::tempdir()?;
        let (front, back) = (free_port()?, free_port()?);
        let peers = Peers::start(dir.path(), front, back)?;
        let answers = async || {
            Ok(Connection::open("127.0.0.1", front)
                .and_then(|mut c| c.call("/", "{}"))
                .is_ok_and(|s| s == 200))
        };
        until("gunicorn answers", answers, PAUSE).await?;
        let router = self.cluster.http_port();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            // It has an instance from the first call on, and ends a second after the last.
            load(router, "/fn/default/slot", 1).await?;
            let pids = interpreters()?;
            if pids.is_empty() {
                bail!("no interpreter was found in a container");
            }
            let (router_before, before) = (self.cluster.agent().cpu()?, times(&pids));
            load(router, "/fn/default/slot", CALLS).await?;
            ours.push(each(self.cluster.agent().cpu()? - router_before + since(&before)));
            let before = peers.cpu()?;
            load(front, "/", CALLS).await?;
            theirs.push(each(peers.cpu()? - before));
        }
        let (ours, theirs) = (median(ours), median(theirs));
        Ok(format!(
            "CPU of a warm call, {CLIENTS} connections: router and instance {ours:.0} µs, nginx and gunicorn {theirs:.0} µs: \
             {:.2} x, target 1\n",
            ours / theirs
        ))
    }
}

fn each(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / (CLIENTS * CALLS) as f64
}

/// Every client its own connection, and so many calls one after the other.
async fn load(port: u16, path: &'static str, calls: usize) -> Result<()> {
    let one = move || -> Result<()> {
        let mut connection = Connection::open("127.0.0.1", port)?;
        for _ in 0..calls {
            let status = connection.call(path, "{\"name\": \"you\"}")?;
            if status != 200 {
                bail!("{path} was answered {status}");
            }
        }
        Ok(())
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::task::spawn_blocking(one)).collect();
    for client in clients {
        client.await??;
    }
    Ok(())
}

struct Peers {
    nginx: Process,
    /// Its own process has others.
    gunicorn: Process,
}

impl Peers {
    fn start(dir: &Path, front: u16, back: u16) -> Result<Peers> {
        std::fs::write(dir.join("app.py"), APP)?;
        let shown = dir.display();
        let conf = dir.join("nginx.conf");
        let text = format!(
            "daemon off; master_process off; pid {shown}/pid; error_log {shown}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {shown}/body; proxy_temp_path {shown}/proxy; fastcgi_temp_path {shown}/fastcgi;
  uwsgi_temp_path {shown}/uwsgi; scgi_temp_path {shown}/scgi;
  upstream app {{ server 127.0.0.1:{back}; keepalive {CLIENTS}; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{front};
    location / {{ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}
  }}
}}
"
        );
        std::fs::write(&conf, text)?;
        let workers = CLIENTS.to_string();
        let gunicorn = Process::start(
            Command::new("gunicorn")
                .current_dir(dir)
                .args(["-k", "gthread", "--threads", "1", "--keep-alive", "60"])
                .args(["-w", &workers, "-b", &format!("127.0.0.1:{back}"), "app:app"]),
        )?;
        let nginx =
            Process::start(Command::new("nginx").arg("-e").arg(dir.join("error.log")).arg("-c").arg(&conf))?;
        Ok(Peers { nginx, gunicorn })
    }

    fn cpu(&self) -> Result<Duration> {
        let master = self.gunicorn.id();
        let is_worker = |pid: &u32| parent(*pid) == Some(master);
        let workers: Vec<u32> = processes()?.into_iter().filter(is_worker).collect();
        Ok(self.nginx.cpu()? + self.gunicorn.cpu()? + cpu_of(&workers))
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // Its workers end with it when it is asked to, and not when it is killed.
        let _ = Command::new("kill").args(["-TERM", &self.gunicorn.id().to_string()]).status();
        let begun = Instant::now();
        let has_worker = || {
            processes().is_ok_and(|all| all.into_iter().any(|pid| parent(pid) == Some(self.gunicorn.id())))
        };
        while has_worker() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(PAUSE);
        }
    }
}

fn processes() -> Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc").context("/proc")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Interpreters in containers: those of the instance, and of slots, which do nothing meanwhile.
fn interpreters() -> Result<Vec<u32>> {
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let own = namespace("self");
    let is_ours = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("python") && namespace(&pid.to_string()) != own
    };
    Ok(processes()?.into_iter().filter(is_ours).collect())
}

/// Of those that are there.
fn cpu_of(pids: &[u32]) -> Duration {
    times(pids).into_values().sum()
}

/// CPU time so far, by process.
fn times(pids: &[u32]) -> BTreeMap<u32, Duration> {
    let of_thread = |text: String| text.split(' ').next().and_then(|time| time.trim().parse::<u64>().ok());
    let of_process = |pid: &u32| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let times =
            tasks.filter_map(|task| of_thread(std::fs::read_to_string(task.path().join("schedstat")).ok()?));
        Some((*pid, Duration::from_nanos(times.sum())))
    };
    pids.iter().filter_map(of_process).collect()
}

/// What they have used since then; slots among them may have ended.
fn since(before: &BTreeMap<u32, Duration>) -> Duration {
    let pids: Vec<u32> = before.keys().copied().collect();
    times(&pids).into_iter().map(|(pid, now)| now.saturating_sub(before[&pid])).sum()
}
