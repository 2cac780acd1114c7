//! What an agent knows of Services, as it is kept for its next run.
//!
//! An agent that starts while no server answers goes on from it: names resolve, and a machine that was restarted has
//! its rules again. What the API server says replaces it as soon as it says anything.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default)]
pub struct Known {
    pub services: Vec<Arc<Service>>,
    pub slices: Vec<Arc<EndpointSlice>>,
}

#[derive(Serialize)]
struct Written<'a> {
    services: Vec<&'a Service>,
    slices: Vec<&'a EndpointSlice>,
}

#[derive(Deserialize)]
struct Read {
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
}

impl Known {
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&Written {
            services: self.services.iter().map(AsRef::as_ref).collect(),
            slices: self.slices.iter().map(AsRef::as_ref).collect(),
        })
    }

    pub fn from_json(bytes: &[u8]) -> serde_json::Result<Known> {
        let Read { services, slices } = serde_json::from_slice(bytes)?;
        Ok(Known {
            services: services.into_iter().map(Arc::new).collect(),
            slices: slices.into_iter().map(Arc::new).collect(),
        })
    }

    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
    }
}
