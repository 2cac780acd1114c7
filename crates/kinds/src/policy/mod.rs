//! policy: limits on disruption.

pub(super) mod pod_disruption_budget;
