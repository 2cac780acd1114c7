//! Quotas, disruption budgets and priorities.

use clap::Args;
use serde_json::{Map, Value, json};

use super::{MakingFlags, labels};
use crate::error::{Error, Result};
use crate::flags::pair;

/// Create a ResourceQuota
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s create quota few --hard=pods=10,cpu=4,memory=8Gi")]
pub struct Quota {
    name: String,
    /// resource=amount,...
    #[arg(long, value_name = "RESOURCE=AMOUNT", value_delimiter = ',')]
    hard: Vec<String>,
    /// Scopes that the quota applies to
    #[arg(long, value_name = "SCOPE", value_delimiter = ',')]
    scopes: Vec<String>,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl Quota {
    pub fn object(&self) -> Result<Value> {
        let mut hard = Map::new();
        for part in &self.hard {
            let (resource, amount) = pair(part, "--hard")?;
            hard.insert(resource.to_owned(), amount.into());
        }
        let mut spec = json!({});
        if !hard.is_empty() {
            spec["hard"] = hard.into();
        }
        if !self.scopes.is_empty() {
            spec["scopes"] = json!(self.scopes);
        }
        Ok(
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": self.name}, "spec": spec, "status": {}}),
        )
    }
}

/// Create a PodDisruptionBudget
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s create pdb guard --selector=app=web --min-available=50%")]
pub struct PodDisruptionBudget {
    name: String,
    /// Labels of the pods it guards
    #[arg(long, value_name = "LABELS")]
    selector: String,
    /// How many must stay: a number or a percentage
    #[arg(long, value_name = "N", conflicts_with = "max_unavailable")]
    min_available: Option<String>,
    /// How many may be away: a number or a percentage
    #[arg(long, value_name = "N")]
    max_unavailable: Option<String>,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl PodDisruptionBudget {
    pub fn object(&self) -> Result<Value> {
        let (field, amount) = match (&self.min_available, &self.max_unavailable) {
            (Some(least), _) => ("minAvailable", least),
            (None, Some(most)) => ("maxUnavailable", most),
            (None, None) => {
                return Err(Error::plain("one of min-available or max-unavailable must be specified"));
            }
        };
        let amount = amount.parse::<i64>().map_or_else(|_| json!(amount), |number| json!(number));
        Ok(json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": self.name},
            "spec": {field: amount, "selector": {"matchLabels": labels(&self.selector)?}},
            "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
        }))
    }
}

/// Create a PriorityClass
#[derive(Debug, Args)]
#[command(
    after_help = "Example: minik8s create priorityclass high --value=1000 --description='before others'"
)]
pub struct PriorityClass {
    name: String,
    /// Higher goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    value: i64,
    /// Use it for pods that name none
    #[arg(long)]
    global_default: bool,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// PreemptLowerPriority or Never
    #[arg(long, value_name = "POLICY", default_value = "PreemptLowerPriority")]
    preemption_policy: String,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl PriorityClass {
    pub fn object(&self) -> Value {
        let mut object = json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": self.name},
            "value": self.value,
            "preemptionPolicy": self.preemption_policy,
        });
        if self.global_default {
            object["globalDefault"] = true.into();
        }
        if let Some(description) = &self.description {
            object["description"] = description.clone().into();
        }
        object
    }
}
