//! Which Services the node's own proxy serves, and for whom. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use minik8s_meta::mesh::{MeshRoute, MeshRouteSpec};

use super::engine::{Ruled, v4};
use super::followed::Name;

/// Services of namespaces with policies on what comes are left out, and pods of namespaces with policies on what leaves:
/// more than would be needed, and never less.
pub fn ruled<'a>(
    routes: impl Iterator<Item = &'a MeshRouteSpec>,
    policies: impl Iterator<Item = &'a NetworkPolicy> + Clone,
    pods: impl Iterator<Item = &'a Pod>,
) -> Ruled {
    let namespaces = |kind: &str| -> BTreeSet<&str> {
        let of_kind = policies.clone().filter(|policy| is_about(policy, kind));
        of_kind.filter_map(|policy| policy.metadata.namespace.as_deref()).collect()
    };
    let (guarded, held) = (namespaces("Ingress"), namespaces("Egress"));
    let is_free = |route: &&MeshRouteSpec| namespaces_of(route).iter().all(|one| !guarded.contains(one));
    let addresses = routes.filter(is_for_all).filter(is_free).flat_map(|route| &route.addresses);
    let is_held = |pod: &&Pod| pod.metadata.namespace.as_deref().is_some_and(|one| held.contains(one));
    Ruled {
        addresses: addresses.filter_map(|address| v4(address)).collect(),
        spared: pods.filter(is_held).filter_map(address).collect(),
    }
}

/// Routes with an address that the kernel does not lead as it should; `applied` is what it has.
pub fn unled(
    routes: &BTreeMap<Name, Arc<MeshRoute>>,
    ruled: &Ruled,
    applied: Option<&Ruled>,
) -> BTreeSet<Name> {
    let nothing = Ruled::default();
    let applied = applied.unwrap_or(&nothing);
    let wrong = match ruled.spared == applied.spared {
        true => &ruled.addresses ^ &applied.addresses,
        false => &ruled.addresses | &applied.addresses,
    };
    let is_unled = |(_, route): &(&Name, &Arc<MeshRoute>)| {
        let mut addresses = route.spec.addresses.iter().filter_map(|address| v4(address));
        addresses.any(|address| wrong.contains(&address))
    };
    routes.iter().filter(is_unled).map(|(name, _)| name.clone()).collect()
}

/// A consumer's route alone is for clients whose namespace is known.
fn is_for_all(route: &&MeshRouteSpec) -> bool {
    route.gateway.as_ref().is_none_or(|one| one.clients.iter().any(|clients| clients.namespace.is_empty()))
}

/// Of all pods that its requests can reach.
fn namespaces_of(route: &MeshRouteSpec) -> BTreeSet<&str> {
    let own = route.service.split_once('/').map(|(namespace, _)| namespace);
    let targets = route.gateway.iter().flat_map(|gateway| &gateway.targets);
    own.into_iter().chain(targets.map(|target| target.namespace.as_str())).collect()
}

/// Without types a policy is about what comes, and about what leaves if it has rules for that.
fn is_about(policy: &NetworkPolicy, kind: &str) -> bool {
    let Some(spec) = &policy.spec else { return true };
    match spec.policy_types.as_ref().filter(|types| !types.is_empty()) {
        Some(types) => types.iter().any(|one| one == kind),
        None => kind == "Ingress" || spec.egress.is_some(),
    }
}

/// Of the pod's own network.
pub fn address(pod: &Pod) -> Option<Ipv4Addr> {
    let is_own = pod.spec.as_ref().is_some_and(|spec| spec.host_network != Some(true));
    let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok();
    address.filter(|_| is_own)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn routes_of_consumers_are_not_for_clients_without_a_namespace() {
        let check = |namespaces: &[&str], expected: usize| {
            let clients: Vec<Value> =
                namespaces.iter().map(|one| json!({"namespace": one, "matches": []})).collect();
            let route: MeshRouteSpec = serde_json::from_value(json!({"uid": "u", "revision": "", "service": "shop/r",
                "addresses": ["10.96.0.5:9080"], "gateway": {"clients": clients, "rules": [], "targets": []}}))
            .unwrap();
            let found = ruled([&route].into_iter(), [].into_iter(), [].into_iter());
            assert_eq!(found.addresses.len(), expected, "{namespaces:?}");
        };
        check(&["bank"], 0);
        check(&["", "bank"], 1);
    }

    #[test]
    fn routes_are_unled_where_the_kernel_has_something_else() {
        let address = |number: u8| (Ipv4Addr::new(10, 96, 0, number), 80);
        let route = |number: u8| {
            let spec =
                MeshRouteSpec { addresses: vec![format!("10.96.0.{number}:80")], ..Default::default() };
            let name = ("ns".to_owned(), number.to_string());
            (name, Arc::new(MeshRoute { spec, ..MeshRoute::default() }))
        };
        let routes = BTreeMap::from([route(1), route(2)]);
        let check = |wanted: &[u8], applied: Option<&[u8]>, spared: &[u8], expected: &str| {
            let ruled = |addresses: &[u8], spared: &[u8]| Ruled {
                addresses: addresses.iter().map(|number| address(*number)).collect(),
                spared: spared.iter().map(|number| address(*number).0).collect(),
            };
            let applied = applied.map(|addresses| ruled(addresses, spared));
            let found = unled(&routes, &ruled(wanted, &[]), applied.as_ref());
            let found: Vec<String> = found.into_iter().map(|(_, name)| name).collect();
            assert_eq!(found.join(" "), expected, "{wanted:?} {applied:?}");
        };
        check(&[1, 2], Some(&[1, 2]), &[], "");
        check(&[1, 2], Some(&[1]), &[], "2");
        check(&[1], Some(&[1, 2]), &[], "2");
        check(&[1], Some(&[1]), &[9], "1");
        check(&[1, 2], None, &[], "1 2");
        check(&[], None, &[], "");
    }

    #[test]
    fn what_policies_could_be_about_is_left_to_the_kernel() {
        let check = |policy: Value, addresses: usize, spared: &[&str]| {
            let route: MeshRouteSpec = serde_json::from_value(json!({"uid": "u", "revision": "r",
                "service": "shop/reviews", "addresses": ["10.96.0.5:9080"]}))
            .unwrap();
            let pod = |namespace: &str, ip: &str, host: bool| -> Pod {
                serde_json::from_value(json!({"metadata": {"name": "p", "namespace": namespace},
                    "spec": {"containers": [], "hostNetwork": host}, "status": {"podIP": ip}}))
                .unwrap()
            };
            let policy: NetworkPolicy = serde_json::from_value(policy).unwrap();
            let pods = [
                pod("shop", "10.244.0.1", false),
                pod("bank", "10.244.0.2", false),
                pod("bank", "10.0.0.9", true),
            ];
            let found = ruled([&route].into_iter(), [&policy].into_iter(), pods.iter());
            assert_eq!(found.addresses.len(), addresses, "{policy:?}");
            let found: Vec<String> = found.spared.iter().map(Ipv4Addr::to_string).collect();
            assert_eq!(found, spared, "{policy:?}");
        };
        let policy = |namespace: &str, spec: Value| json!({"metadata": {"name": "n", "namespace": namespace}, "spec": spec});
        let (comes, leaves) = (json!({"policyTypes": ["Ingress"]}), json!({"policyTypes": ["Egress"]}));
        check(policy("other", comes.clone()), 1, &[]);
        check(policy("shop", comes), 0, &[]);
        check(policy("shop", json!({})), 0, &[]);
        check(policy("bank", leaves), 1, &["10.244.0.2"]);
        check(policy("shop", json!({"egress": []})), 0, &["10.244.0.1"]);
    }
}
