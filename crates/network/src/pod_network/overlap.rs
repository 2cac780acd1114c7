//! Refuses address ranges that are in use around this node already.

use ipnet::IpNet;
use minik8s_meta::Cidrs;
use thiserror::Error;

use super::{Kernel, KernelError, Owner};

#[derive(Debug, Error)]
pub enum Overlap {
    #[error(
        "{flag} {range} overlaps the network {network} of this machine's interface {device}: \
         choose another range with {flag}, e.g. {flag} {example}"
    )]
    Taken { flag: &'static str, range: IpNet, network: IpNet, device: String, example: &'static str },
    #[error(
        "the cluster's pods have addresses in {range}, which overlaps the network {network} of this machine's interface \
         {device}: give the interface an address elsewhere, or start the cluster's servers with another --cluster-cidr"
    )]
    Joining { range: IpNet, network: IpNet, device: String },
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// `own_bridge` and the tunnel of `instance` carry these ranges rightly. Who joins a cluster has no say in its ranges, and
/// knows those of pods alone.
pub async fn check_ranges(
    cluster: Cidrs,
    services: Option<Cidrs>,
    instance: &str,
    own_bridge: &str,
) -> Result<(), Overlap> {
    let tunnel = Owner::of(instance).tunnel;
    let mut networks = Vec::new();
    for interface in Kernel::default().interfaces().await? {
        if interface.ifname != own_bridge && interface.ifname != tunnel && !interface.is_idle() {
            networks.extend(interface.networks().map(|network| (interface.ifname.clone(), network.trunc())));
        }
    }
    clash(cluster, services, &networks).map_or(Ok(()), Err)
}

/// Ranges to take instead, of each family.
type Examples = [&'static str; 4];

const PODS: Examples = ["10.42.0.0/16", "172.30.0.0/16", "192.168.128.0/17", "fd42::/56"];
const SERVICES: Examples = ["10.43.0.0/16", "172.31.0.0/16", "192.168.64.0/18", "fd43::/112"];

fn clash(cluster: Cidrs, services: Option<Cidrs>, networks: &[(String, IpNet)]) -> Option<Overlap> {
    let pods = cluster.iter().map(|range| ("--cluster-cidr", range, PODS));
    let services_too = services.into_iter().flat_map(|services| services.iter());
    let mut ranges = pods.chain(services_too.map(|range| ("--service-cidr", range, SERVICES)));
    let overlap = |a: &IpNet, b: &IpNet| a.contains(b) || b.contains(a);
    ranges.find_map(|(flag, range, examples)| {
        let (device, network) = networks.iter().find(|(_, network)| overlap(network, &range))?;
        if services.is_none() {
            return Some(Overlap::Joining { range, network: *network, device: device.clone() });
        }
        let free = |example: &&str| {
            let example = example.parse::<IpNet>();
            example.is_ok_and(|example| {
                let ours = cluster.iter().chain(services.into_iter().flat_map(|services| services.iter()));
                let mut others = networks.iter().map(|(_, network)| *network).chain(ours);
                example.addr().is_ipv4() == range.addr().is_ipv4()
                    && !others.any(|other| overlap(&other, &example))
            })
        };
        let last = if range.addr().is_ipv4() { "100.64.0.0/16" } else { "fd44::/56" };
        let example = examples.into_iter().find(free).unwrap_or(last);
        Some(Overlap::Taken { flag, range, network: *network, device: device.clone(), example })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_use_are_refused() {
        let check = |network: &str, expected: &str| {
            let networks = [("eth0".to_owned(), network.parse().unwrap())];
            let cluster = "10.244.0.0/16,fd00:10:244::/56".parse().unwrap();
            let services = Some("10.96.0.0/12,fd00:10:96::/112".parse().unwrap());
            let found = clash(cluster, services, &networks).map(|clash| clash.to_string());
            assert_eq!(found.unwrap_or_default(), expected, "{network}");
        };
        check("192.0.2.0/24", "");
        check("10.243.0.0/16", "");
        check(
            "10.244.7.0/24",
            "--cluster-cidr 10.244.0.0/16 overlaps the network 10.244.7.0/24 of this machine's interface \
             eth0: choose another range with --cluster-cidr, e.g. --cluster-cidr 10.42.0.0/16",
        );
        check(
            "10.100.0.0/16",
            "--service-cidr 10.96.0.0/12 overlaps the network 10.100.0.0/16 of this machine's interface \
             eth0: choose another range with --service-cidr, e.g. --service-cidr 10.43.0.0/16",
        );
        check(
            "10.0.0.0/8",
            "--cluster-cidr 10.244.0.0/16 overlaps the network 10.0.0.0/8 of this machine's interface eth0: \
             choose another range with --cluster-cidr, e.g. --cluster-cidr 172.30.0.0/16",
        );
        check(
            "fd00:10:244::/64",
            "--cluster-cidr fd00:10:244::/56 overlaps the network fd00:10:244::/64 of this machine's interface eth0: \
             choose another range with --cluster-cidr, e.g. --cluster-cidr fd42::/56",
        );
        let networks = [("eth0".to_owned(), "10.244.7.0/24".parse().unwrap())];
        let found = clash("10.244.0.0/16".parse().unwrap(), None, &networks).unwrap().to_string();
        assert!(found.contains("interface eth0: give the interface an address elsewhere"), "{found}");
    }
}
