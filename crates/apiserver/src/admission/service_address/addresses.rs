//! Which addresses a Service has: one of each of its families.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use minik8s_api::{FieldErrors, Path};
use minik8s_meta::{IpFamily, nth_address};
use minik8s_store::{Condition, Op};
use serde_json::{Value, json};

use super::{ServiceAddresses, TRIES, families, reserved};
use crate::admission::Request;
use crate::codec;
use crate::error::{ApiError, Result};
use crate::object::{Object, object_at};
use crate::registry::{Registry, timestamp};

impl ServiceAddresses {
    /// Takes what the Service needs and gives back what it needs no more, all in its own commit.
    pub(super) async fn assign_addresses(
        &self,
        registry: &Registry,
        request: &mut Request<'_>,
    ) -> Result<()> {
        let held = request.old.map(addresses_of).unwrap_or_default();
        if request.object["spec"]["type"] == "ExternalName" {
            return self.give_back(registry, request, &held);
        }
        object_at(request.object, "spec");
        let old = request.old.map(|old| &old["spec"]);
        let settled = families::settle(&mut request.object["spec"], old, &self.ranges.services);
        let name = request.name().to_owned();
        let families = match settled.map_err(|errors| ApiError::invalid("", "Service", &name, errors))? {
            Some(families) => families,
            // Validation refuses it.
            None => return Ok(()),
        };
        let asked = texts(&request.object["spec"]["clusterIPs"]);
        if asked.first().is_some_and(|first| first == "None") {
            return self.give_back(registry, request, &held);
        }
        // Validation refuses to change an address.
        if asked.iter().zip(&held).any(|(asked, held)| asked.parse::<IpAddr>().ok() != Some(*held)) {
            return Ok(());
        }
        let mut addresses: Vec<String> = Vec::with_capacity(families.len());
        for (i, family) in families.into_iter().enumerate() {
            addresses.push(match asked.get(i) {
                Some(asked) if i < held.len() => asked.clone(),
                Some(asked) => self.take(registry, request, family, asked).await?,
                None => self.take_any(registry, request, family).await?,
            });
        }
        let released: Vec<IpAddr> = held.into_iter().skip(addresses.len()).collect();
        self.give_back(registry, request, &released)?;
        request.object["spec"]["clusterIP"] = json!(addresses.first());
        request.object["spec"]["clusterIPs"] = json!(addresses);
        Ok(())
    }

    pub(super) fn give_back(
        &self,
        registry: &Registry,
        request: &mut Request<'_>,
        addresses: &[IpAddr],
    ) -> Result<()> {
        for address in addresses {
            request.also.ops.push(Op::Delete { key: address_key(registry, *address)? });
        }
        Ok(())
    }

    async fn take_any(
        &self,
        registry: &Registry,
        request: &mut Request<'_>,
        family: IpFamily,
    ) -> Result<String> {
        let range = self.range(request, family)?;
        let mut free = free_address(registry, range).await?;
        if free.is_none() {
            for further in further_ranges(registry, range).await? {
                free = free_address(registry, further).await?;
                if free.is_some() {
                    break;
                }
            }
        }
        match free {
            Some(address) => note_address(registry, request, address),
            None => Err(ApiError::internal(format_args!(
                "failed to allocate a serviceIP: range is full: no free address is left in the service range {range}"
            ))),
        }
    }

    async fn take(
        &self,
        registry: &Registry,
        request: &mut Request<'_>,
        family: IpFamily,
        asked: &str,
    ) -> Result<String> {
        let range = self.range(request, family)?;
        let mut found = asked.parse::<IpAddr>().ok();
        if let Some(address) = found.filter(|address| !can_give(range, *address)) {
            let further = further_ranges(registry, range).await?;
            found = further.into_iter().any(|range| can_give(range, address)).then_some(address);
        }
        let Some(address) = found else {
            let why = format!(
                "failed to allocate IP {asked}: the provided IP ({asked}) is not in the valid range. The range of valid \
                 IPs is {range}"
            );
            return Err(refusal(request, why));
        };
        if registry.store.get(&address_key(registry, address)?).await?.is_some() {
            let why = format!("failed to allocate IP {asked}: provided IP is already allocated");
            return Err(refusal(request, why));
        }
        note_address(registry, request, address)?;
        Ok(asked.to_owned())
    }

    /// Families are looked at before; a Service of long ago may have one that the cluster has no more.
    fn range(&self, request: &Request<'_>, family: IpFamily) -> Result<IpNet> {
        let range = self.ranges.services.of_family(family);
        range.ok_or_else(|| refusal(request, format!("{family} is not configured on this cluster")))
    }
}

fn refusal(request: &Request<'_>, why: String) -> ApiError {
    let mut errors = FieldErrors::default();
    let path = Path::new("spec").field("clusterIPs");
    errors.invalid(path, request.object["spec"]["clusterIPs"].clone(), why);
    ApiError::invalid("", "Service", request.object.name(), errors)
}

/// Takes the address in the commit of the Service.
fn note_address(registry: &Registry, request: &mut Request<'_>, address: IpAddr) -> Result<String> {
    let addresses = registry.built_in("networking.k8s.io", "v1", "ipaddresses")?;
    let object = json!({
        "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
        "metadata": {
            "name": address.to_string(), "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": timestamp(request.call.now), "generation": 1,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": IpFamily::of(address).name(),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {
            "resource": "services", "namespace": request.object.namespace(), "name": request.object.name(),
        }},
    });
    let key = address_key(registry, address)?;
    request.also.conditions.push(Condition { key: key.clone(), revision: 0 });
    request.also.ops.push(Op::Put { key, value: codec::encode(&addresses, &object)? });
    Ok(address.to_string())
}

fn address_key(registry: &Registry, address: IpAddr) -> Result<String> {
    Ok(registry.built_in("networking.k8s.io", "v1", "ipaddresses")?.key("", &address.to_string()))
}

/// The ranges of further ServiceCIDRs of the same family, by name. One that is being deleted gives nothing any more.
async fn further_ranges(registry: &Registry, first: IpNet) -> Result<Vec<IpNet>> {
    let ranges = registry.built_in("networking.k8s.io", "v1", "servicecidrs")?;
    let mut further = Vec::new();
    for stored in registry.all(&ranges, "").await? {
        if !stored["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        let nets = texts(&stored["spec"]["cidrs"]).into_iter().filter_map(|net| net.parse::<IpNet>().ok());
        let is_further = |net: &IpNet| *net != first && net.max_prefix_len() == first.max_prefix_len();
        further.extend(nets.filter(is_further));
    }
    Ok(further)
}

fn can_give(range: IpNet, address: IpAddr) -> bool {
    let (first, last) = usable(range);
    offset(range, address).is_some_and(|n| (first..=last).contains(&n))
}

/// One drawn by lot; the lowest if nearly all are taken.
async fn free_address(registry: &Registry, range: IpNet) -> Result<Option<IpAddr>> {
    let (first, last) = usable(range);
    if first > last {
        return Ok(None);
    }
    let lowest = reserved(last, 16, 256).max(first);
    for _ in 0..TRIES {
        let Some(address) = nth_address(range, rand::random_range(lowest..=last)) else { continue };
        if registry.store.get(&address_key(registry, address)?).await?.is_none() {
            return Ok(Some(address));
        }
    }
    let taken = taken(registry, range).await?;
    let free = gap(&taken, lowest, last).or_else(|| gap(&taken, first, lowest - 1));
    Ok(free.and_then(|n| nth_address(range, n)))
}

/// How far into the range each address is that somebody holds: as many steps as there are Services, however large it is.
async fn taken(registry: &Registry, range: IpNet) -> Result<BTreeSet<u128>> {
    let addresses = registry.built_in("networking.k8s.io", "v1", "ipaddresses")?;
    let (entries, _) = registry.entries(&addresses).await?;
    let held = entries.iter().filter_map(|entry| entry.key.rsplit('/').next()?.parse().ok());
    Ok(held.filter_map(|address| offset(range, address)).collect())
}

/// The first number from `first` to `last` that is not taken.
fn gap(taken: &BTreeSet<u128>, first: u128, last: u128) -> Option<u128> {
    if first > last {
        return None;
    }
    let mut free = first;
    for &one in taken.range(first..=last) {
        if one > free {
            break;
        }
        free = one + 1;
    }
    (free <= last).then_some(free)
}

/// The first and the last address that can be given: not the network's own, nor, of IPv4, that which means all of it. The
/// first is beyond the last where there is none.
fn usable(range: IpNet) -> (u128, u128) {
    let bits = u32::from(range.max_prefix_len() - range.prefix_len());
    let last = 1_u128.checked_shl(bits).map_or(u128::MAX, |size| size - 1);
    match range {
        IpNet::V4(_) => (1, last.saturating_sub(1)),
        IpNet::V6(_) => (1, last),
    }
}

fn offset(range: IpNet, address: IpAddr) -> Option<u128> {
    match (range.contains(&address), range.network(), address) {
        (true, IpAddr::V4(first), IpAddr::V4(address)) => {
            Some(u128::from(u32::from(address) - u32::from(first)))
        }
        (true, IpAddr::V6(first), IpAddr::V6(address)) => Some(u128::from(address) - u128::from(first)),
        _ => None,
    }
}

/// The addresses that a Service holds, in their order.
pub(super) fn addresses_of(service: &Value) -> Vec<IpAddr> {
    let spec = &service["spec"];
    let mut all: Vec<IpAddr> = texts(&spec["clusterIPs"]).iter().filter_map(|ip| ip.parse().ok()).collect();
    if all.is_empty() {
        all.extend(spec["clusterIP"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok()));
    }
    all
}

pub(super) fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_is_the_first_free_number() {
        let check = |taken: &[u128], first: u128, last: u128, expected: Option<u128>| {
            assert_eq!(
                gap(&taken.iter().copied().collect(), first, last),
                expected,
                "{taken:?} {first} {last}"
            );
        };
        check(&[], 1, 14, Some(1));
        check(&[1, 2, 4], 1, 14, Some(3));
        check(&[5, 6], 1, 6, Some(1));
        check(&[1, 2, 3], 1, 3, None);
        check(&[1, 2, 3], 2, 4, Some(4));
        check(&[], 1, 0, None);
        // A /64 is not counted through.
        check(&[256, 257], 256, u64::MAX.into(), Some(258));
    }

    #[test]
    fn usable_addresses_of_a_range() {
        let check = |range: &str, expected: (&str, &str)| {
            let range: IpNet = range.parse().unwrap();
            let (first, last) = usable(range);
            let shown = [first, last].map(|n| nth_address(range, n).unwrap());
            assert_eq!(shown, [expected.0, expected.1].map(|ip| ip.parse::<IpAddr>().unwrap()));
            assert_eq!(shown.map(|address| offset(range, address)), [Some(first), Some(last)]);
        };
        check("10.9.0.0/28", ("10.9.0.1", "10.9.0.14"));
        check("fd00::/112", ("fd00::1", "fd00::ffff"));
        check("fd00::/64", ("fd00::1", "fd00::ffff:ffff:ffff:ffff"));
        for none in ["10.9.0.0/31", "10.9.0.0/32", "fd00::/128"] {
            let (first, last) = usable(none.parse().unwrap());
            assert!(first > last, "{none}");
        }
        assert_eq!(offset("fd00::/112".parse().unwrap(), "10.0.0.1".parse().unwrap()), None);
    }
}
