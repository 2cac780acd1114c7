//! EndpointSlices: few changes for few changed pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::IpFamily;
use minik8s_runtime::{Action, Plan, owner_reference};

use super::backend::{Backend, Port};
use super::hints::hints;
use super::{HEADLESS, MANAGED_BY, MANAGER, Observed, SERVICE_NAME};

const MOST_ENDPOINTS: usize = 100;
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

pub(super) fn reconcile(
    seen: &Observed,
    family: IpFamily,
    wanted: bool,
    backends: &[Backend],
    changed_at: Timestamp,
    plan: &mut Plan,
) {
    let mut existing: Vec<&Arc<EndpointSlice>> =
        seen.slices.iter().filter(|slice| slice.address_type == family.name()).collect();
    existing.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut groups: BTreeMap<Vec<Port>, Vec<&Backend>> = BTreeMap::new();
    for backend in backends {
        groups.entry(backend.ports.clone()).or_default().push(backend);
    }
    // A Service without backends still has one empty slice.
    if groups.is_empty() && wanted {
        groups.insert(Vec::new(), Vec::new());
    }
    let mut kept = Vec::new();
    for (ports, backends) in groups {
        let mine = existing.iter().copied().filter(|slice| slice_ports(slice) == ports).collect();
        let group = Group { service: &seen.service, family, ports, changed_at };
        kept.extend(group.reconcile(mine, backends, plan));
    }
    for slice in existing {
        if !kept.contains(&slice.metadata.name) && slice.metadata.deletion_timestamp.is_none() {
            plan.act(Action::delete(&**slice));
        }
    }
}

/// Backends with the same ports share slices.
struct Group<'a> {
    service: &'a Service,
    family: IpFamily,
    ports: Vec<Port>,
    changed_at: Timestamp,
}

impl Group<'_> {
    /// Gives the names of the slices that stay.
    fn reconcile(
        &self,
        slices: Vec<&Arc<EndpointSlice>>,
        mut missing: Vec<&Backend>,
        plan: &mut Plan,
    ) -> Vec<Option<String>> {
        let mut kept = Vec::new();
        let mut contents: Vec<(&Arc<EndpointSlice>, Vec<Endpoint>)> = Vec::new();
        for slice in slices {
            let mut endpoints = Vec::new();
            for endpoint in slice.endpoints.iter().flatten() {
                let same = |backend: &&Backend| {
                    endpoint.target_ref.as_ref().map(|r| &r.uid) == Some(&backend.pod.uid)
                };
                if let Some(i) = missing.iter().position(same) {
                    endpoints.push(self.endpoint(missing.remove(i)));
                }
            }
            contents.push((slice, endpoints));
        }
        for (_, endpoints) in &mut contents {
            let room = MOST_ENDPOINTS.saturating_sub(endpoints.len()).min(missing.len());
            endpoints.extend(missing.drain(..room).map(|backend| self.endpoint(backend)));
        }
        let total: usize = contents.iter().map(|(_, endpoints)| endpoints.len()).sum();
        let is_empty = total == 0 && missing.is_empty();
        for (i, (slice, endpoints)) in contents.into_iter().enumerate() {
            // One empty slice may stay if there is nothing else.
            if endpoints.is_empty() && !(is_empty && i == 0) {
                continue;
            }
            kept.push(slice.metadata.name.clone());
            self.update(slice, endpoints, plan);
        }
        for chunk in missing.chunks(MOST_ENDPOINTS) {
            plan.act(Action::create(
                &self.slice(chunk.iter().map(|backend| self.endpoint(backend)).collect()),
            ));
        }
        if is_empty && kept.is_empty() {
            plan.act(Action::create(&self.slice(Vec::new())));
        }
        kept
    }

    fn update(&self, slice: &EndpointSlice, endpoints: Vec<Endpoint>, plan: &mut Plan) {
        let wanted = self.slice(endpoints);
        let mut updated = slice.clone();
        updated.endpoints = wanted.endpoints;
        updated.metadata.labels = wanted.metadata.labels;
        let list = |slice: &EndpointSlice| slice.endpoints.clone().unwrap_or_default();
        if list(&updated) != list(slice) || updated.metadata.labels != slice.metadata.labels {
            updated.metadata.annotations.get_or_insert_default().extend(self.trigger());
            plan.act(Action::update(&updated));
        }
    }

    fn trigger(&self) -> BTreeMap<String, String> {
        [(TRIGGER.to_owned(), self.changed_at.to_string())].into()
    }

    fn endpoint(&self, backend: &Backend) -> Endpoint {
        Endpoint {
            addresses: backend.addresses.clone(),
            conditions: Some(EndpointConditions {
                ready: Some(backend.is_ready),
                serving: Some(backend.is_serving),
                terminating: Some(backend.is_terminating),
            }),
            hints: hints(self.service, backend),
            hostname: backend.hostname.clone(),
            node_name: backend.node.clone(),
            zone: backend.zone.clone(),
            target_ref: Some(backend.pod.clone()),
            ..Endpoint::default()
        }
    }

    fn slice(&self, endpoints: Vec<Endpoint>) -> EndpointSlice {
        let meta = &self.service.metadata;
        let name = meta.name.clone().unwrap_or_default();
        let mut labels = meta.labels.clone().unwrap_or_default();
        labels.remove(HEADLESS);
        labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
        labels.insert(SERVICE_NAME.to_owned(), name.clone());
        if super::legacy::is_headless(self.service) {
            labels.insert(HEADLESS.to_owned(), String::new());
        }
        EndpointSlice {
            address_type: self.family.name().to_owned(),
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}-")),
                namespace: meta.namespace.clone(),
                labels: Some(labels),
                annotations: Some(self.trigger()),
                owner_references: Some(vec![owner_reference(self.service)]),
                ..ObjectMeta::default()
            },
            endpoints: Some(endpoints),
            ports: Some(self.ports.iter().map(port_of).collect()),
        }
    }
}

fn port_of(port: &Port) -> EndpointPort {
    EndpointPort {
        // The API wants a name, be it empty.
        name: Some(port.name.clone().unwrap_or_default()),
        protocol: Some(port.protocol.clone()),
        port: port.number,
        app_protocol: port.app_protocol.clone(),
    }
}

fn slice_ports(slice: &EndpointSlice) -> Vec<Port> {
    let ports = slice.ports.iter().flatten().map(|port| Port {
        name: port.name.clone().filter(|name| !name.is_empty()),
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        number: port.port,
        app_protocol: port.app_protocol.clone(),
    });
    ports.collect()
}
