//! Persistent storage as a feature of the server.

use std::sync::Arc;

use minik8s_api::{AdmissionRule, Extension};
use minik8s_feature::{Parts, ServerFeature};

use crate::admission::{DefaultStorageClass, InUseProtection, VolumeGrowth};
use crate::attach::Attachments;
use crate::attributes::AttributesProtection;
use crate::claim::{Claims, Matches};
use crate::ephemeral::EphemeralVolumes;
use crate::snapshot::{Contents, Snapshots, kinds};
use crate::volume::Volumes;
use crate::{csi, default_class, shared};

pub struct Storage;

impl ServerFeature for Storage {
    fn name(&self) -> &'static str {
        "storage"
    }

    fn extension(&self) -> Extension {
        let admission: Vec<Arc<dyn AdmissionRule>> =
            vec![Arc::new(DefaultStorageClass), Arc::new(VolumeGrowth), Arc::new(InUseProtection)];
        Extension { kinds: kinds::all(), admission, ..Extension::default() }
    }

    fn start(&self, parts: &mut Parts) {
        parts.controller(Claims::default());
        parts.controller(Matches::default());
        parts.controller(Volumes::default());
        parts.controller(EphemeralVolumes);
        parts.controller(Attachments);
        parts.controller(AttributesProtection);
        parts.controller(Snapshots);
        parts.controller(Contents);
        let (client, caches) = (parts.client.clone(), parts.caches.clone());
        parts.task(csi::operate(client, caches, parts.leads.clone(), parts.stop.clone()));
        let (client, caches) = (parts.client.clone(), parts.caches.clone());
        parts.task(shared::tell_nodes(client, caches, parts.leads.clone(), parts.stop.clone()));
        parts.task(default_class::provide(parts.client.clone(), parts.stop.clone()));
    }
}
