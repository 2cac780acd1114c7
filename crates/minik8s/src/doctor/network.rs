//! Ports and address ranges.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::process::Command;

use ipnet::IpNet;
use minik8s_network::pod_network::ROUTE_PROTOCOL;

use super::{DoctorFlags, Finding};
use crate::address_ranges;

pub fn check(flags: &DoctorFlags) -> Vec<Finding> {
    let mut findings = vec![port("the server", flags.port), port("the node", flags.node_port)];
    if let Err(error) = address_ranges::check(&flags.cluster_cidr, &flags.service_cidr) {
        findings.push(Finding::broken(error.to_string(), "give the server other ranges"));
    }
    let routes = ["-4", "-6"].map(routes).concat();
    let ranges = [("--cluster-cidr", flags.cluster_cidr), ("--service-cidr", flags.service_cidr)];
    let ranges = ranges.into_iter().flat_map(|(flag, ranges)| ranges.iter().map(move |range| (flag, range)));
    findings.extend(ranges.map(|(flag, range)| overlap(flag, range, &routes)));
    findings
}

/// What `ip` says of one family.
fn routes(family: &str) -> String {
    let listed = Command::new("ip").args([family, "route", "show"]).output();
    listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default()
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
fn overlap(flag: &str, range: IpNet, routes: &str) -> Finding {
    let other = routes.lines().filter_map(route).find(|(_, network)| {
        network.prefix_len() > 0 && (network.contains(&range.network()) || range.contains(&network.network()))
    });
    match other {
        None => Finding::fine(format!("{flag} {range} overlaps nothing")),
        Some((device, network)) => Finding::broken(
            format!("{flag} {range} overlaps {network}, which this machine reaches through {device}"),
            format!("choose another range with {flag}"),
        ),
    }
}

/// Device and destination of a line of `ip route`, if it is nothing that a node of minik8s set up.
fn route(line: &str) -> Option<(&str, IpNet)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
    let device = after("dev")?;
    let is_ours = device.starts_with("mk-")
        || device.starts_with("mkv-")
        || after("proto").is_some_and(|protocol| **protocol == ROUTE_PROTOCOL.to_string());
    let destination = words.first()?;
    let network = destination.parse().ok().or_else(|| Some(IpNet::from(destination.parse::<IpAddr>().ok()?)));
    network.filter(|_| !is_ours).map(|network| (*device, network))
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn overlaps() {
        let check = |range: &str, route: &str, expected: Severity| {
            let routes = format!("default via 10.99.0.254 dev eth0\n{route}\n");
            let finding = overlap("--cluster-cidr", range.parse().unwrap(), &routes);
            assert_eq!(finding.severity, expected, "{finding}");
        };
        let lan = "10.244.3.0/24 dev eth1 proto kernel scope link src 10.244.3.7";
        check("10.244.0.0/16", lan, Severity::Broken);
        check("10.244.3.128/25", lan, Severity::Broken);
        check("10.245.0.0/16", lan, Severity::Fine);
        check("10.244.0.0/16", "10.244.3.9 via 10.99.0.1 dev tun0", Severity::Broken);
        // The node's own pods, and the way to another node's.
        check("10.244.0.0/16", "10.244.3.0/24 dev mk-0badcafe proto kernel", Severity::Fine);
        check("10.244.0.0/16", "10.244.3.0/24 via 10.0.0.2 dev eth0 proto 77 metric 9", Severity::Fine);
        check("fd00:10::/56", "fd00:10:0:7::/64 dev eth1 proto kernel metric 256", Severity::Broken);
        check("fd00:10::/56", "fd00:11::/64 dev eth1 proto kernel metric 256", Severity::Fine);
    }

    #[test]
    fn a_port_is_free_or_not() {
        let taken = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let number = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let listener = taken();
        assert_eq!(port("the server", number(&listener)).severity, Severity::Warning);
        // Somebody else may be quicker to take one that was just given back, but not always.
        let given_back = (0..20).map(|_| number(&taken()));
        assert!(given_back.into_iter().any(|free| port("the server", free).severity == Severity::Fine));
    }
}
