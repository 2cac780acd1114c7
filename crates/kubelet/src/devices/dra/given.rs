//! What containers get of the claims that are prepared for their pod.

use std::collections::BTreeMap;

use super::Dra;
use super::prepared::{PreparedClaim, PreparedDevice};
use crate::devices::api::{CdiDevice, ClaimResource, DynamicResource};

impl Dra {
    /// The CDI devices of a container, each once.
    pub fn cdi_devices(&self, uid: &str, container: &str) -> Vec<CdiDevice> {
        let mut names: Vec<String> = Vec::new();
        for (_, _, device) in devices(&self.prepared.lock().claims, uid, container) {
            names.extend(device.cdi.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
        }
        names.into_iter().map(|name| CdiDevice { name }).collect()
    }

    /// For `podresources`: what each container of each pod has, by namespace, pod and container.
    pub fn in_use(&self) -> BTreeMap<(String, String), BTreeMap<String, Vec<DynamicResource>>> {
        let prepared = self.prepared.lock();
        let mut pods: BTreeMap<(String, String), BTreeMap<String, Vec<DynamicResource>>> = BTreeMap::new();
        for claim in prepared.claims.values() {
            for user in claim.users.values() {
                let containers = pods.entry((claim.namespace.clone(), user.pod.clone())).or_default();
                for (container, request) in &user.containers {
                    containers.entry(container.clone()).or_default().push(shown(claim, request.as_deref()));
                }
            }
        }
        pods
    }
}

fn devices<'a>(
    claims: &'a BTreeMap<String, PreparedClaim>,
    uid: &'a str,
    container: &'a str,
) -> impl Iterator<Item = (&'a PreparedClaim, &'a str, &'a PreparedDevice)> {
    let of_pod = claims.values().filter_map(move |claim| Some((claim, claim.users.get(uid)?)));
    of_pod.flat_map(move |(claim, user)| {
        let wanted = user.containers.iter().filter(move |(name, _)| name == container);
        wanted.flat_map(move |(_, request)| {
            of_request(claim, request.as_deref()).map(move |(driver, device)| (claim, driver, device))
        })
    })
}

fn of_request<'a>(
    claim: &'a PreparedClaim,
    request: Option<&'a str>,
) -> impl Iterator<Item = (&'a str, &'a PreparedDevice)> {
    let all = claim.drivers.iter();
    all.flat_map(move |(driver, preparation)| {
        let devices = preparation.devices.iter().filter(move |device| device.is_of(request));
        devices.map(move |device| (driver.as_str(), device))
    })
}

fn shown(claim: &PreparedClaim, request: Option<&str>) -> DynamicResource {
    let resources = of_request(claim, request).map(|(driver, device)| ClaimResource {
        cdi_devices: device.cdi.iter().map(|name| CdiDevice { name: name.clone() }).collect(),
        driver_name: driver.to_owned(),
        pool_name: device.pool.clone(),
        device_name: device.device.clone(),
    });
    DynamicResource {
        claim_name: claim.name.clone(),
        claim_namespace: claim.namespace.clone(),
        claim_resources: resources.collect(),
    }
}
