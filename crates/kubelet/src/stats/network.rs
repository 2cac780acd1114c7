//! Traffic of a network namespace.

use std::fs::read_to_string;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traffic {
    pub interface: String,
    pub received: u64,
    pub received_packets: u64,
    pub receive_errors: u64,
    pub sent: u64,
    pub sent_packets: u64,
    pub send_errors: u64,
}

/// Interfaces but loopback, as this process sees them.
pub fn traffic_of(pid: u32) -> Vec<Traffic> {
    parse(&read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default())
}

/// The rows of `/proc/PID/net/dev`.
pub fn parse(table: &str) -> Vec<Traffic> {
    let rows = table.lines().filter_map(|line| line.split_once(':'));
    rows.filter_map(|(name, numbers)| {
        let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let interface = name.trim().to_owned();
        let [received, received_packets, receive_errors, _, _, _, _, _, sent, sent_packets, send_errors, ..] =
            numbers.as_slice()
        else {
            return None;
        };
        Some(Traffic {
            interface,
            received: *received,
            received_packets: *received_packets,
            receive_errors: *receive_errors,
            sent: *sent,
            sent_packets: *sent_packets,
            send_errors: *send_errors,
        })
    })
    .filter(|traffic| traffic.interface != "lo")
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs ...\n\
            lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 100 2 3 0 0 0 0 0 200 4 5 0 0 0 0 0\n";
        let want = Traffic {
            interface: "eth0".into(),
            received: 100,
            received_packets: 2,
            receive_errors: 3,
            sent: 200,
            sent_packets: 4,
            send_errors: 5,
        };
        assert_eq!(parse(table), [want]);
        assert_eq!(parse(""), []);
    }
}
