//! Whether the ranges of pods and of Services can be those of one cluster. Pure: what this machine's own networks use is
//! looked at elsewhere.

use anyhow::bail;
use ipnet::IpNet;
use minik8s_meta::{Cidrs, IpFamily};

/// Sixteen addresses: those of the API server and of names are the first and the tenth.
const SERVICE_BITS: u8 = 4;
/// As upstream: more could never be used.
const SHORTEST_V6: u8 = 64;

pub fn check(cluster: &Cidrs, services: &Cidrs) -> anyhow::Result<()> {
    if let Some((services, cluster)) = services.overlap(cluster) {
        bail!("--service-cidr {services} and --cluster-cidr {cluster} overlap: give each a range of its own");
    }
    services.iter().try_for_each(check_services)?;
    let (Some(first), Some(of_pods)) = (services.families().next(), cluster.families().next()) else {
        return Ok(());
    };
    if first != of_pods {
        bail!(
            "--service-cidr {services} begins with a range of {first}, --cluster-cidr {cluster} with one of {of_pods}: \
             name the ranges of both in the same order, that of the primary family first"
        );
    }
    if let Some(lacking) = services.families().find(|&family| cluster.of_family(family).is_none()) {
        bail!(
            "--service-cidr {services} has a range of {lacking}, --cluster-cidr {cluster} has none: Services of {lacking} \
             would lead to no pod; give --cluster-cidr one of each family, too"
        );
    }
    Ok(())
}

fn check_services(range: IpNet) -> anyhow::Result<()> {
    let bits = range.max_prefix_len() - range.prefix_len();
    if bits < SERVICE_BITS {
        let longest = range.max_prefix_len() - SERVICE_BITS;
        bail!("--service-cidr {range}: at least 16 addresses are needed (a /{longest} or larger)");
    }
    if IpFamily::of(range.addr()) == IpFamily::V6 && range.prefix_len() < SHORTEST_V6 {
        bail!(
            "--service-cidr {range}: the shortest allowed prefix length is {SHORTEST_V6}, e.g. fd00:10:96::/112"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn accepted(cluster: &str, services: &str) {
        check(&cluster.parse().unwrap(), &services.parse().unwrap()).unwrap();
    }

    #[track_caller]
    fn refused(cluster: &str, services: &str, why: &str) {
        let error = check(&cluster.parse().unwrap(), &services.parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn ranges_of_one_cluster_are_accepted() {
        accepted("10.244.0.0/16", "10.96.0.0/12");
        accepted("fd00:10:244::/56", "fd00:10:96::/112");
        accepted("10.244.0.0/16,fd00:10:244::/56", "10.96.0.0/12,fd00:10:96::/108");
        accepted("fd00:10:244::/56,10.244.0.0/16", "fd00:10:96::/108,10.96.0.0/12");
        // Pods of both families, Services of one.
        accepted("10.244.0.0/16,fd00:10:244::/56", "10.96.0.0/12");
    }

    #[test]
    fn ranges_of_no_cluster_are_refused() {
        refused("10.96.0.0/16", "10.96.0.0/12", "overlap");
        refused(
            "10.244.0.0/16,fd00::/56",
            "10.96.0.0/12,fd00::/112",
            "--service-cidr fd00::/112 and --cluster-cidr",
        );
        refused("10.244.0.0/16,fd00::/56", "fd01::/112,10.96.0.0/12", "begins with a range of IPv6");
        refused("10.244.0.0/16", "10.96.0.0/12,fd01::/112", "has a range of IPv6");
        refused("10.244.0.0/16", "fd01::/112", "begins with a range of IPv6");
        refused("10.244.0.0/16", "10.96.0.0/29", "a /28 or larger");
        refused("fd00::/56", "fd01::/125", "a /124 or larger");
        refused("fd00::/56", "fd01::/48", "shortest allowed prefix length is 64");
    }
}
