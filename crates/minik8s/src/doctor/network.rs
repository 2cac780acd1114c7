//! Ports and address ranges.

use std::net::{Ipv4Addr, TcpListener};

use ipnet::Ipv4Net;

use super::{DoctorFlags, Finding};

pub fn check(flags: &DoctorFlags) -> Vec<Finding> {
    let mut findings = vec![port("the server", flags.port), port("the node", flags.node_port)];
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let ranges = [("--cluster-cidr", flags.cluster_cidr), ("--service-cidr", flags.service_cidr)];
    findings.extend(ranges.into_iter().map(|(flag, range)| overlap(flag, range, &routes)));
    findings
}

fn port(whose: &str, port: u16) -> Finding {
    match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
        Ok(_) => Finding::fine(format!("port {port} is free for {whose}")),
        Err(error) => Finding::warning(
            format!("port {port} of {whose} cannot be used: {error}"),
            "fine if minik8s runs here already; else choose another with --port or --node-port",
        ),
    }
}

/// A range through which the machine already reaches something else.
fn overlap(flag: &str, range: Ipv4Net, routes: &str) -> Finding {
    let other = routes.lines().skip(1).filter_map(route).find(|(device, network)| {
        let is_ours = device.starts_with("mk-") || device.starts_with("mkv-");
        !is_ours
            && network.prefix_len() > 0
            && (network.contains(&range.network()) || range.contains(&network.network()))
    });
    match other {
        None => Finding::fine(format!("{flag} {range} overlaps nothing")),
        Some((device, network)) => Finding::broken(
            format!("{flag} {range} overlaps {network}, which this machine reaches through {device}"),
            format!("choose another range with {flag}"),
        ),
    }
}

/// Device and destination of a line of /proc/net/route, whose numbers are little-endian hexadecimal.
fn route(line: &str) -> Option<(&str, Ipv4Net)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let address = |text: &str| Some(Ipv4Addr::from(u32::from_str_radix(text, 16).ok()?.swap_bytes()));
    let [device, destination, _, _, _, _, _, mask, ..] = fields.as_slice() else { return None };
    Ipv4Net::with_netmask(address(destination)?, address(mask)?).ok().map(|network| (*device, network))
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn overlaps() {
        // 10.244.3.0/24 through eth1, and the default route.
        let line = |device: &str| {
            format!(
                "head\n{device} 0003F40A 00000000 0001 0 0 0 00FFFFFF 0 0 0\neth0 00000000 FE00630A 0003 0 0 0 00000000 0 0 0\n"
            )
        };
        let check = |range: &str, device: &str, expected: Severity| {
            let finding = overlap("--cluster-cidr", range.parse().unwrap(), &line(device));
            assert_eq!(finding.severity, expected, "{finding}");
        };
        check("10.244.0.0/16", "eth1", Severity::Broken);
        check("10.244.3.128/25", "eth1", Severity::Broken);
        check("10.245.0.0/16", "eth1", Severity::Fine);
        check("10.244.0.0/16", "mk-0badcafe", Severity::Fine);
    }
}
