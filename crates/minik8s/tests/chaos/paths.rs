//! To which pod each connection was led: the node's connection tracking tells it as it happens.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// So late we may hear of a connection that has ended already.
const LATE: Duration = Duration::from_secs(2);

/// By the client's port: when a connection was made, and to which address.
type Ways = BTreeMap<u16, Vec<(Instant, String)>>;

pub struct Paths {
    child: Child,
    reader: Option<JoinHandle<()>>,
    ways: Arc<Mutex<Ways>>,
}

impl Paths {
    /// Follows the connections to `port` on the node with that network namespace.
    pub fn follow(namespace: &Path, port: &str) -> Paths {
        let mut child = Command::new("nsenter")
            .arg(format!("--net={}", namespace.display()))
            .args(["conntrack", "-E", "-e", "NEW", "-p", "tcp", "--dport", port])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("conntrack is installed");
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let ways = Arc::new(Mutex::new(Ways::new()));
        let told = ways.clone();
        let reader = std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some((port, address)) = read(&line) {
                    told.lock().unwrap().entry(port).or_default().push((Instant::now(), address));
                }
            }
        });
        Paths { child, reader: Some(reader), ways }
    }

    /// Where the connection went that was made from this port and had ended by then. Packets that came after
    /// their connection was forgotten may have been led elsewhere: then there are several.
    pub fn from(&self, port: u16, begun: Instant, ended: Instant) -> Vec<String> {
        let ways = self.ways.lock().unwrap();
        let of_port = ways.get(&port).into_iter().flatten();
        of_port
            .filter(|(at, _)| begun <= *at && *at <= ended + LATE)
            .map(|(_, address)| address.clone())
            .collect()
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// `[NEW] tcp 6 120 SYN_SENT src=… dst=… sport=… dport=… [UNREPLIED] src=POD dst=… sport=… dport=…`
fn read(line: &str) -> Option<(u16, String)> {
    let values = |name: &str, number: usize| {
        line.split_whitespace().filter_map(|word| word.strip_prefix(name)).nth(number).map(str::to_owned)
    };
    Some((values("sport=", 0)?.parse().ok()?, values("src=", 1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answering_end_is_the_pod() {
        let line = "    [NEW] tcp      6 120 SYN_SENT src=172.18.0.1 dst=172.18.0.11 sport=42000 dport=30123 \
                    [UNREPLIED] src=10.244.1.9 dst=172.18.0.11 sport=8080 dport=42000";
        assert_eq!(read(line), Some((42000, "10.244.1.9".to_owned())));
        assert_eq!(read("conntrack v1.4.7 (conntrack-tools): 1 flow events have been shown."), None);
    }
}
