//! The feature `workflows`: what it adds to the API, and what it runs.

use std::sync::Arc;

use minik8s_api::Extension;
use minik8s_feature::{Parts, ServerFeature};

use crate::engine::{Engine, Means};
use crate::handlers::{HistoryHandler, LateRecords, TasksHandler};
use crate::kinds;
use crate::retention::Retention;
use crate::tasks::{HttpInvoker, Integrations};

#[derive(Default)]
pub struct Workflows {
    /// Known once the API server runs.
    records: LateRecords,
}

impl ServerFeature for Workflows {
    fn name(&self) -> &'static str {
        "workflows"
    }

    fn extension(&self) -> Extension {
        let run = kinds::workflow_run()
            .handled("history", "WorkflowRun", &["get"], HistoryHandler(self.records.clone()))
            .handled("tasks", "WorkflowRun", &["create"], TasksHandler(self.records.clone()));
        Extension { kinds: vec![kinds::workflow(), run], ..Extension::default() }
    }

    fn start(&self, parts: &mut Parts) {
        let Some(records) = parts.records.clone() else {
            return tracing::warn!("workflows do not run: there is nowhere to keep their history");
        };
        let _ = self.records.set(records.clone());
        let functions = Arc::new(HttpInvoker::new(parts.caches.clone()));
        let tasks = Integrations::new(parts.client.clone(), parts.caches.clone(), functions);
        let clock = Arc::new(|| jiff::Timestamp::now().as_millisecond());
        let engine = Engine {
            client: parts.client.clone(),
            caches: parts.caches.clone(),
            records,
            means: Means { tasks: Arc::new(tasks), clock },
            leads: parts.leads.clone(),
            stop: parts.stop.clone(),
        };
        parts.task(engine.run());
        parts.controller(Retention);
    }
}
