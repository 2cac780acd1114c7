//! HorizontalPodAutoscalers, and what they last went by.

use std::sync::Arc;

use minik8s_api::Extension;
use minik8s_feature::{Parts, ServerFeature};
use minik8s_metrics::{Decisions, History};

use crate::autoscale::{self, Autoscalers, Pasts};
use crate::resource_metrics::Wants;

#[derive(Default)]
pub struct Autoscaling {
    pub history: Arc<History>,
    pub wants: Arc<Wants>,
    pub decisions: Arc<Decisions>,
    pub pasts: Arc<Pasts>,
}

impl ServerFeature for Autoscaling {
    fn name(&self) -> &'static str {
        "autoscaling"
    }

    fn extension(&self) -> Extension {
        Extension {
            kinds: vec![autoscale::scaling_decision(self.decisions.clone(), self.pasts.clone())],
            ..Extension::default()
        }
    }

    fn start(&self, parts: &mut Parts) {
        let autoscalers = Autoscalers::new(
            Some(parts.client.clone()),
            parts.catalog.clone(),
            self.history.clone(),
            self.wants.clone(),
            self.decisions.clone(),
            self.pasts.clone(),
        );
        parts.controller(autoscalers);
    }
}
