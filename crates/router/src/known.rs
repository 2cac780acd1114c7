//! What a table is made of, as it is kept for the agent's next run.
//!
//! An agent that starts while no server answers routes by it. Certificates are not kept: keys of users stay out of the
//! node's files, so HTTPS waits for the API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use minik8s_api::dns::Dns;
use serde::{Deserialize, Serialize};

use crate::table::Objects;

#[derive(Serialize)]
struct Written<'a> {
    dns: Vec<&'a Dns>,
    ingresses: Vec<&'a Ingress>,
    classes: Vec<&'a IngressClass>,
    services: Vec<&'a Service>,
    slices: Vec<&'a EndpointSlice>,
}

#[derive(Deserialize)]
struct Read {
    dns: Vec<Dns>,
    ingresses: Vec<Ingress>,
    classes: Vec<IngressClass>,
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
}

impl Objects {
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&Written {
            dns: borrowed(&self.dns),
            ingresses: borrowed(&self.ingresses),
            classes: borrowed(&self.classes),
            services: borrowed(&self.services),
            slices: borrowed(&self.slices),
        })
    }

    pub fn from_json(bytes: &[u8]) -> serde_json::Result<Objects> {
        let read: Read = serde_json::from_slice(bytes)?;
        Ok(Objects {
            dns: shared(read.dns),
            ingresses: shared(read.ingresses),
            classes: shared(read.classes),
            services: shared(read.services),
            slices: shared(read.slices),
        })
    }
}

fn borrowed<T>(objects: &[Arc<T>]) -> Vec<&T> {
    objects.iter().map(AsRef::as_ref).collect()
}

fn shared<T>(objects: Vec<T>) -> Vec<Arc<T>> {
    objects.into_iter().map(Arc::new).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::build;

    #[test]
    fn a_table_survives() {
        let meta = json!({"name": "s", "namespace": "ns", "labels": {"kubernetes.io/service-name": "s"}});
        let dns = json!({"metadata": meta, "spec": {"rules": [{"host": "shop.example", "paths": [
            {"path": "/", "backend": {"service": {"name": "s", "port": 80}}},
        ]}]}});
        let service = json!({"metadata": meta, "spec": {"ports": [{"port": 80}]}});
        let slice = json!({"metadata": meta, "addressType": "IPv4", "ports": [{"port": 8080}],
            "endpoints": [{"addresses": ["10.0.0.1"]}]});
        let objects = Objects {
            dns: vec![Arc::new(serde_json::from_value(dns).unwrap())],
            services: vec![Arc::new(serde_json::from_value(service).unwrap())],
            slices: vec![Arc::new(serde_json::from_value(slice).unwrap())],
            ..Objects::default()
        };
        let again = Objects::from_json(&objects.to_json().unwrap()).unwrap();
        let table = build(&again, "cluster.local");
        assert_eq!(table, build(&objects, "cluster.local"));
        assert!(table.find("shop.example", "/x").is_some_and(|route| route.backend.endpoints.is_ok()));
    }
}
