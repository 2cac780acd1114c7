//! The proxies of this node's pods: a socket for each, over which it is told what to do and says what it has done.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use minik8s_meta::mesh::{LISTENERS_SOCKET, NETNS_FILE, SIDECAR_UID, SOCKET};
use minik8s_telemetry::Tracer;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::acks::Reached;
use super::config_file;
use super::metrics::Metrics;
use super::taps::Taps;
use crate::handover::Keeper;
use crate::protocol::{Own, Report};

/// Of all that a proxy may say on one connection at a time: what it has counted of some thousand Services.
const LONGEST_LINE: u64 = 2 << 20;
/// Beside the sockets, for an agent that is started anew: namespace and name of the pod.
const POD: &str = "pod";
/// Of one pod at a time; a further one waits until one ends.
const MOST_PROCESSES: usize = 4;
/// For a pod's certificate to be issued before it is told the rest: without one it speaks to others in the clear. It is
/// less than proxies wait for the first word.
const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(5);

/// A version of what all proxies are told. Version 0 is none.
#[derive(Debug, Default)]
pub struct Encoded {
    pub version: u64,
    /// An object in JSON without its end, for what one alone is told.
    pub shared: Vec<u8>,
}

impl Encoded {
    pub fn line(&self, own: &Own) -> io::Result<Vec<u8>> {
        let own = serde_json::to_vec(own)?;
        Ok([&self.shared, &b",\"own\":"[..], &own, b"}\n"].concat())
    }
}

/// What a proxy's feed is made of.
#[derive(Clone)]
pub struct Feeds {
    pub config: watch::Receiver<Arc<Encoded>>,
    /// Hears whenever a proxy comes, goes or has applied something.
    pub progress: Arc<Notify>,
    pub metrics: Arc<Metrics>,
    /// Who tells of requests, if somebody collects them.
    pub tracer: Option<Tracer>,
}

/// The processes of one proxy that are connected: one, or two while another program takes the place of the first; and those
/// before it, as long as they have connections.
#[derive(Debug, Default)]
struct Processes {
    known: Mutex<BTreeMap<u64, Heard>>,
    /// What all of them have applied that have applied anything.
    applied: watch::Sender<Option<u64>>,
    /// What all of them have open.
    open: watch::Sender<Option<u64>>,
    /// When the last of them that had applied anything went.
    gone: Mutex<Option<std::time::Instant>>,
}

/// What one of them has said last.
#[derive(Debug, Default)]
struct Heard {
    applied: Option<u64>,
    open: Option<u64>,
}

impl Processes {
    fn hear(&self, number: u64, applied: Option<u64>, open: Option<u64>) {
        let mut known = self.known.lock();
        let one = known.entry(number).or_default();
        *one = Heard { applied: applied.or(one.applied), open: open.or(one.open) };
        self.tell(&known);
    }

    fn forget(&self, number: u64) {
        let mut known = self.known.lock();
        known.remove(&number);
        self.tell(&known);
    }

    fn tell(&self, known: &BTreeMap<u64, Heard>) {
        let applied = known.values().filter_map(|one| one.applied).min();
        if applied.is_none() && self.applied.borrow().is_some() {
            *self.gone.lock() = Some(std::time::Instant::now());
        }
        self.applied.send_replace(applied);
        self.open.send_replace(known.values().filter_map(|one| one.open).reduce(|sum, one| sum + one));
    }
}

/// One of them.
struct Process {
    number: u64,
    pod: Arc<str>,
    of: Arc<Processes>,
}

/// The sockets close when this is dropped.
pub struct Proxy {
    /// Namespace and name of the pod.
    pub pod: String,
    /// The version that it routes by; `None` while it is not connected.
    pub applied: watch::Receiver<Option<u64>>,
    /// Connections to the pod, where it was asked.
    pub open: watch::Receiver<Option<u64>>,
    /// What it alone is told. Without it nothing is told: it says who may come in.
    pub own: watch::Sender<Option<Own>>,
    /// Who wants to see its requests.
    pub taps: Arc<Taps>,
    processes: Arc<Processes>,
    since: std::time::Instant,
    _tasks: [AbortOnDropHandle<()>; 3],
}

impl Proxy {
    /// Listens in the pod's folder.
    pub fn listen(dir: &Path, pod: &str, feeds: Feeds) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join(POD), pod)?;
        let (listener, keeping) = (bind(dir, SOCKET)?, bind(dir, LISTENERS_SOCKET)?);
        let processes = Arc::<Processes>::default();
        let (applied, open) = (processes.applied.subscribe(), processes.open.subscribe());
        let (own, told) = watch::channel(None);
        let noting = tokio::spawn(config_file::keep(dir.to_owned(), feeds.config.clone(), own.subscribe()));
        let name: Arc<str> = pod.into();
        let taps = Arc::<Taps>::default();
        let (told_to, of) = (taps.clone(), processes.clone());
        let feeding = tokio::spawn(async move {
            let mut fed = JoinSet::new();
            for number in 0.. {
                if fed.len() >= MOST_PROCESSES {
                    fed.join_next().await;
                }
                let stream = loop {
                    tokio::select! {
                        Some(stream) = accept(&listener) => break stream,
                        Some(_) = fed.join_next() => {}
                        else => {}
                    }
                };
                let (feeds, told, taps) = (feeds.clone(), told.clone(), told_to.clone());
                let process = Process { number, pod: name.clone(), of: of.clone() };
                fed.spawn(async move {
                    let ended = feed(stream, &feeds, (told, &*taps), &process).await;
                    debug!(error = ended.err().map(|error| error.to_string()), "a proxy is gone");
                    process.of.forget(number);
                    feeds.metrics.end(&process.pod, number);
                    feeds.progress.notify_one();
                });
            }
        });
        let keeping = tokio::spawn(async move {
            let keeper = Arc::<Keeper>::default();
            loop {
                let Some(stream) = accept(&keeping).await else { continue };
                let keeper = keeper.clone();
                let served = tokio::task::spawn_blocking(move || {
                    let stream = stream.into_std()?;
                    stream.set_nonblocking(false)?;
                    keeper.serve(&stream)
                });
                if let Ok(Err(error)) = served.await {
                    debug!(%error, "the sockets of a proxy were not handed over");
                }
            }
        });
        let tasks = [feeding, keeping, noting].map(AbortOnDropHandle::new);
        let (pod, since) = (pod.to_owned(), std::time::Instant::now());
        Ok(Proxy { pod, applied, open, own, taps, processes, since, _tasks: tasks })
    }

    pub fn reached(&self) -> Reached {
        match *self.applied.borrow() {
            Some(version) => Reached::Version(version),
            None => Reached::Unknown(self.processes.gone.lock().unwrap_or(self.since)),
        }
    }
}

async fn accept(listener: &UnixListener) -> Option<UnixStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            debug!(%error, "cannot accept a proxy");
            sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// For probes, which are to reach the pod past its proxy.
pub fn note_network(dir: &Path, netns: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join(NETNS_FILE), netns.as_os_str().as_encoded_bytes())
}

/// Folders of pods that an agent before this one listened in: the pod's uid, the folder, the pod.
pub fn known(pods_dir: &Path, folder: &str) -> Vec<(String, PathBuf, String)> {
    let entries = std::fs::read_dir(pods_dir).into_iter().flatten().filter_map(Result::ok);
    let known = entries.filter_map(|entry| {
        let dir = entry.path().join(folder);
        let pod = std::fs::read_to_string(dir.join(POD)).ok()?;
        Some((entry.file_name().into_string().ok()?, dir, pod))
    });
    known.collect()
}

/// Only the proxy's user may connect; and only the proxy has the folder mounted. The address of a socket has room for
/// 107 bytes, and paths of data dirs can be longer: so it goes by the folder's descriptor.
fn bind(dir: &Path, name: &str) -> io::Result<UnixListener> {
    let socket = dir.join(name);
    match std::fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let folder = std::fs::File::open(dir)?;
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))?;
    let user = u32::try_from(SIDECAR_UID).ok();
    chown(&socket, user, user)?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// It is heard while it is told: each could wait for the other to take what was said.
async fn feed(
    stream: UnixStream,
    feeds: &Feeds,
    (own, taps): (watch::Receiver<Option<Own>>, &Taps),
    process: &Process,
) -> io::Result<()> {
    let (reader, writer) = stream.into_split();
    tokio::select! {
        ended = hear(reader, feeds, taps, process) => ended,
        ended = tell(writer, feeds, (own, taps)) => ended,
    }
}

async fn hear(reader: OwnedReadHalf, feeds: &Feeds, taps: &Taps, process: &Process) -> io::Result<()> {
    let mut lines = BufReader::new(reader.take(LONGEST_LINE)).lines();
    while let Some(line) = lines.next_line().await? {
        lines.get_mut().get_mut().set_limit(LONGEST_LINE);
        let mut report: Report = serde_json::from_str(&line)?;
        process.of.hear(process.number, report.applied, report.open);
        if let Some(tracer) = &feeds.tracer {
            let spans = std::mem::take(&mut report.spans).into_iter();
            spans.filter_map(|span| span.of_pod(&process.pod)).for_each(|span| tracer.tell(span));
        }
        taps.tell(&report.tapped, report.tap_dropped);
        feeds.metrics.set(&process.pod, process.number, report);
        feeds.progress.notify_one();
    }
    Ok(())
}

async fn tell(
    mut writer: OwnedWriteHalf,
    feeds: &Feeds,
    (mut own, taps): (watch::Receiver<Option<Own>>, &Taps),
) -> io::Result<()> {
    let (mut config, mut filters) = (feeds.config.clone(), taps.filters());
    // How long its certificate is waited for, from the moment on when there is something to tell.
    let (mut until, mut is_told) = (None, false);
    config.mark_changed();
    loop {
        let late = async move {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = late => {}
            changed = config.changed() => if changed.is_err() { return Ok(()) },
            changed = own.changed() => if changed.is_err() { return Ok(()) },
            changed = filters.changed() => if changed.is_err() { return Ok(()) },
        }
        let newest = config.borrow_and_update().clone();
        let Some(own) = own.borrow_and_update().clone().filter(|_| newest.version > 0) else { continue };
        if !is_told && own.credentials.is_none() {
            let until = *until.get_or_insert_with(|| Instant::now() + CREDENTIALS_TIMEOUT);
            if Instant::now() < until {
                continue;
            }
        }
        (until, is_told) = (None, true);
        let own = Own { taps: filters.borrow_and_update().clone(), ..own };
        writer.write_all(&newest.line(&own)?).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Config, Credentials, Inbound};

    async fn read_line(stream: &mut BufReader<UnixStream>) -> String {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        line
    }

    fn own(certificates: &str) -> Own {
        let (certificates, key) = (certificates.to_owned(), String::new());
        Own { credentials: Some(Credentials { certificates, key }), ..Own::default() }
    }

    /// A proxy gets what is known when it comes and whatever follows; its answers are seen, and its end.
    #[tokio::test]
    async fn proxy_is_fed_and_heard() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(120));
        let encoded = |version: u64| Encoded {
            version,
            shared: format!("{{\"version\":{version},\"routes\":[]").into(),
        };
        let (config, receiver) = watch::channel(Arc::new(encoded(1)));
        let feeds =
            Feeds { config: receiver, progress: Arc::default(), metrics: Arc::default(), tracer: None };
        let mut proxy = Proxy::listen(&long, "ns/p", feeds.clone()).unwrap();
        proxy.own.send_replace(Some(own("a")));
        assert_eq!(known(dir.path(), &"x".repeat(120)), []);
        let connect = async || {
            let folder = std::fs::File::open(&long).unwrap();
            let path = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
            BufReader::new(UnixStream::connect(path).await.unwrap())
        };
        let mut stream = connect().await;
        let told = async |stream: &mut BufReader<UnixStream>| -> (u64, String) {
            let config: Config = serde_json::from_str(&read_line(stream).await).unwrap();
            (config.version, config.own.credentials.unwrap().certificates)
        };
        assert_eq!(told(&mut stream).await, (1, "a".to_owned()));
        stream.get_mut().write_all(b"{\"applied\":1,\"more\":true}\n").await.unwrap();
        proxy.applied.wait_for(|applied| *applied == Some(1)).await.unwrap();
        config.send_replace(Arc::new(encoded(2)));
        assert_eq!(told(&mut stream).await, (2, "a".to_owned()));
        proxy.own.send_replace(Some(own("b")));
        assert_eq!(told(&mut stream).await, (2, "b".to_owned()));
        stream
            .get_mut()
            .write_all(b"{\"requests\":[{\"service\":\"ns/s\",\"code\":200,\"count\":7}]}\n{\"applied\":2}\n")
            .await
            .unwrap();
        proxy.applied.wait_for(|applied| *applied == Some(2)).await.unwrap();
        assert!(feeds.metrics.page().contains("} 7\n"), "{}", feeds.metrics.page());
        // Another takes its place: what both have applied counts, and of both what they have counted.
        let mut successor = connect().await;
        assert_eq!(told(&mut successor).await, (2, "b".to_owned()));
        let said =
            "{\"applied\":2,\"open\":3,\"requests\":[{\"service\":\"ns/s\",\"code\":200,\"count\":1}]}\n";
        successor.get_mut().write_all(said.as_bytes()).await.unwrap();
        proxy.open.wait_for(|open| *open == Some(3)).await.unwrap();
        stream.get_mut().write_all(b"{\"applied\":1,\"open\":2}\n").await.unwrap();
        proxy.open.wait_for(|open| *open == Some(5)).await.unwrap();
        assert_eq!(*proxy.applied.borrow(), Some(1));
        drop(stream);
        proxy.open.wait_for(|open| *open == Some(3)).await.unwrap();
        assert_eq!(*proxy.applied.borrow(), Some(2));
        assert!(feeds.metrics.page().contains("} 8\n"), "{}", feeds.metrics.page());
        assert_eq!(proxy.reached(), Reached::Version(2));
        let before = std::time::Instant::now();
        drop(successor);
        proxy.applied.wait_for(Option::is_none).await.unwrap();
        assert!(matches!(proxy.reached(), Reached::Unknown(since) if since >= before), "since it is gone");
        // The next agent takes the place of this one.
        drop(proxy);
        let again = Proxy::listen(&long, "ns/p", feeds).unwrap();
        again.own.send_replace(Some(own("c")));
        assert_eq!(told(&mut connect().await).await, (2, "c".to_owned()));
    }

    /// Whatever a proxy says at the moment of a change, it hears of the change.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn change_is_told_while_the_proxy_reports() {
        let dir = tempfile::tempdir().unwrap();
        let (config, receiver) = watch::channel(Arc::new(Encoded::default()));
        let feeds =
            Feeds { config: receiver, progress: Arc::default(), metrics: Arc::default(), tracer: None };
        let proxy = Proxy::listen(dir.path(), "ns/p", feeds).unwrap();
        proxy.own.send_replace(Some(own("a")));
        let stream = UnixStream::connect(dir.path().join(SOCKET)).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        for version in 1..=2000 {
            writer.write_all(b"{}\n").await.unwrap();
            let shared = format!("{{\"version\":{version},\"routes\":[]").into();
            config.send_replace(Arc::new(Encoded { version, shared }));
            let line = tokio::time::timeout(Duration::from_secs(5), lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("version {version} is not told")).unwrap().unwrap();
            assert_eq!(serde_json::from_str::<Config>(&line).unwrap().version, version);
        }
    }

    /// Both have more to say than a socket holds, and neither listens before it has said it.
    #[tokio::test]
    async fn proxy_is_heard_while_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let filling = "x".repeat(4 << 20);
        let shared = format!("{{\"version\":1,\"routes\":[],\"filling\":\"{filling}\"").into();
        let (_config, receiver) = watch::channel(Arc::new(Encoded { version: 1, shared }));
        let feeds =
            Feeds { config: receiver, progress: Arc::default(), metrics: Arc::default(), tracer: None };
        let mut proxy = Proxy::listen(dir.path(), "ns/p", feeds.clone()).unwrap();
        proxy.own.send_replace(Some(own("a")));
        let long = "x".repeat(1000);
        let count = |number: u32| format!("{{\"service\":\"ns/{long}-{number}\",\"code\":200,\"count\":7}}");
        let counts: Vec<String> = (0..1000).map(count).collect();
        let said = format!("{{\"applied\":1,\"requests\":[{}]}}\n", counts.join(","));
        assert!(said.len() > 512 << 10);
        let mut stream = BufReader::new(UnixStream::connect(dir.path().join(SOCKET)).await.unwrap());
        let saying = async {
            stream.get_mut().write_all(said.as_bytes()).await.unwrap();
            proxy.applied.wait_for(|applied| *applied == Some(1)).await.unwrap();
        };
        tokio::time::timeout(Duration::from_secs(60), saying).await.expect("it is heard");
        assert!(feeds.metrics.page().contains("x-999\""));
        assert!(read_line(&mut stream).await.contains(&filling));
    }

    /// A certificate may be late as well as the server that tells the rest; who may come in is told with the first word.
    #[tokio::test(start_paused = true)]
    async fn first_word_waits_for_the_certificate_and_for_policies() {
        let dir = tempfile::tempdir().unwrap();
        let (config, receiver) = watch::channel(Arc::new(Encoded::default()));
        let feeds =
            Feeds { config: receiver, progress: Arc::default(), metrics: Arc::default(), tracer: None };
        let proxy = Proxy::listen(dir.path(), "ns/p", feeds).unwrap();
        let mut stream = BufReader::new(UnixStream::connect(dir.path().join(SOCKET)).await.unwrap());
        // No server answers for longer than a certificate is waited for.
        sleep(CREDENTIALS_TIMEOUT * 3).await;
        config
            .send_replace(Arc::new(Encoded { version: 1, shared: b"{\"version\":1,\"routes\":[]".to_vec() }));
        sleep(CREDENTIALS_TIMEOUT * 3).await;
        let strict = Inbound { strict: true, ..Inbound::default() };
        proxy.own.send_replace(Some(Own { inbound: strict.clone(), ..Own::default() }));
        sleep(CREDENTIALS_TIMEOUT / 2).await;
        proxy.own.send_replace(Some(Own { inbound: strict, ..own("a") }));
        let told: Config = serde_json::from_str(&read_line(&mut stream).await).unwrap();
        assert!(told.own.inbound.strict && told.own.credentials.is_some(), "{told:?}");
    }
}
