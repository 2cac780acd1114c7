//! What namespaces use of their ResourceQuotas.

use minik8s_feature::{Parts, ServerFeature};

use crate::quota::Quotas;

pub struct ResourceQuotas;

impl ServerFeature for ResourceQuotas {
    fn name(&self) -> &'static str {
        "quota"
    }

    fn start(&self, parts: &mut Parts) {
        parts.controller(Quotas::new(parts.catalog.clone()));
    }
}
