//! To which pod each connection was led: the nodes' connection tracking tells it as it happens.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// So late we may hear of a connection that has ended already.
const LATE: Duration = Duration::from_secs(2);

/// By node and the client's port: when a connection was made, and to which address.
type Ways = BTreeMap<(u32, u16), Vec<(Instant, String)>>;

/// Connections to one of these ports.
pub struct Paths {
    ports: [u16; 2],
    followers: Mutex<BTreeMap<u32, Follower>>,
    ways: Arc<Mutex<Ways>>,
}

struct Follower {
    child: Child,
    reader: Option<JoinHandle<()>>,
}

impl Paths {
    pub fn to(ports: [u16; 2]) -> Paths {
        Paths { ports, followers: Mutex::default(), ways: Arc::default() }
    }

    /// Follows a node's connections in that network namespace, instead of those in an older one.
    pub fn follow(&self, node: u32, namespace: &Path) {
        let mut child = Command::new("nsenter")
            .arg(format!("--net={}", namespace.display()))
            .args(["conntrack", "-E", "-e", "NEW", "-p", "tcp"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("conntrack is installed");
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let (told, ports) = (self.ways.clone(), self.ports);
        let reader = std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some((port, address)) = read(&line, ports) {
                    told.lock().unwrap().entry((node, port)).or_default().push((Instant::now(), address));
                }
            }
        });
        self.followers.lock().unwrap().insert(node, Follower { child, reader: Some(reader) });
    }

    /// Where the connection went that was made on the node from this port and had ended by then. Packets that came
    /// after their connection was forgotten may have been led elsewhere: then there are several.
    pub fn from(&self, node: u32, port: u16, begun: Instant, ended: Instant) -> Vec<String> {
        let ways = self.ways.lock().unwrap();
        let of_port = ways.get(&(node, port)).into_iter().flatten();
        of_port
            .filter(|(at, _)| begun <= *at && *at <= ended + LATE)
            .map(|(_, address)| address.clone())
            .collect()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// `[NEW] tcp 6 120 SYN_SENT src=… dst=… sport=… dport=… [UNREPLIED] src=POD dst=… sport=… dport=…`
fn read(line: &str, ports: [u16; 2]) -> Option<(u16, String)> {
    let values = |name: &str, number: usize| {
        line.split_whitespace().filter_map(|word| word.strip_prefix(name)).nth(number).map(str::to_owned)
    };
    let asked: u16 = values("dport=", 0)?.parse().ok()?;
    ports.contains(&asked).then_some(())?;
    Some((values("sport=", 0)?.parse().ok()?, values("src=", 1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answering_end_is_the_pod() {
        let line = "    [NEW] tcp      6 120 SYN_SENT src=172.18.0.1 dst=172.18.0.11 sport=42000 dport=30123 \
                    [UNREPLIED] src=10.244.1.9 dst=172.18.0.11 sport=8080 dport=42000";
        assert_eq!(read(line, [80, 30123]), Some((42000, "10.244.1.9".to_owned())));
        assert_eq!(read(line, [80, 443]), None);
        assert_eq!(read("conntrack v1.4.7 (conntrack-tools): 1 flow events have been shown.", [80, 1]), None);
    }
}
