//! ScalingDecision as a kind: all that an autoscaler went by when it last decided. Computed when asked for, never stored;
//! it has the name of its HorizontalPodAutoscaler.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use minik8s_api::{Cell, Column, Computed, Objects, ReadError, Resource, Scope, Strategy, table};
use minik8s_meta::scaling_decision::ScalingDecision;
use minik8s_metrics::Decisions;
use serde_json::Value;

use super::backtest_handler::BacktestHandler;
use super::past::Pasts;

pub fn resource(decisions: Arc<Decisions>, pasts: Arc<Pasts>) -> Resource {
    let backtest = BacktestHandler(pasts);
    let resource = Resource::of::<ScalingDecision>(Columns).computed(Decided(decisions));
    resource.handled("backtest", "ScalingDecision", &["get"], backtest)
}

struct Decided(Arc<Decisions>);

#[async_trait]
impl Computed for Decided {
    async fn objects(&self, _cluster: &dyn Objects, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
        let named = |decision: &Value| scope.name.is_none_or(|name| decision["metadata"]["name"] == name);
        let all = self.0.in_namespace(scope.namespace).into_iter();
        Ok(all.filter(|decision| named(decision)).map(|decision| (*decision).clone()).collect())
    }
}

struct Columns;

impl Strategy for Columns {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Target", "Replicas", "Desired", "Verdict", "When"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            table::text_or(&object["target"], "").into(),
            table::text_or(&object["replicas"], "").into(),
            table::text_or(&object["desired"], "").into(),
            table::text_or(&object["verdict"], "").into(),
            table::since(&object["at"], now).into(),
        ]
    }
}
