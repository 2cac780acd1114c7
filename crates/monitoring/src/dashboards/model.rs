//! A dashboard as a table, and as Grafana's JSON.

use serde_json::{Value, json};

/// Panels two in a row, in a grid of 24 columns.
const WIDTH: usize = 12;
const HEIGHT: usize = 8;
/// Version of the JSON model, which every Grafana since 9 reads and newer ones migrate.
const SCHEMA: u32 = 37;

pub struct Dashboard {
    /// Also the file's name.
    pub uid: &'static str,
    pub title: &'static str,
    pub variables: &'static [Variable],
    pub panels: &'static [Panel],
}

/// Something to choose at the top.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    pub name: &'static str,
    /// `label_values(METRIC, LABEL)`.
    pub query: &'static str,
}

pub const NAMESPACE: Variable =
    Variable { name: "namespace", query: "label_values(kube_namespace_created, namespace)" };
pub const NODE: Variable = Variable { name: "node", query: "label_values(kube_node_info, node)" };

#[derive(Debug, Clone, Copy)]
pub struct Panel {
    pub title: &'static str,
    pub unit: Unit,
    /// Queries and how their series are called.
    pub queries: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Count,
    Bytes,
    BytesPerSecond,
    PerSecond,
    Percent,
    Seconds,
    Cores,
}

impl Unit {
    /// As Grafana calls it.
    fn name(self) -> &'static str {
        match self {
            Unit::Count => "short",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "Bps",
            Unit::PerSecond => "ops",
            Unit::Percent => "percentunit",
            Unit::Seconds => "s",
            Unit::Cores => "none",
        }
    }
}

impl Dashboard {
    pub fn to_json(&self) -> Value {
        let source = json!({"type": "prometheus", "uid": "${datasource}"});
        let mut variables = vec![json!({"name": "datasource", "type": "datasource", "query": "prometheus",
            "label": "Data source", "hide": 0})];
        variables.extend(self.variables.iter().map(|variable| {
            json!({"name": variable.name, "type": "query", "datasource": source, "definition": variable.query,
                "query": {"query": variable.query, "refId": variable.name}, "refresh": 2, "sort": 1,
                "includeAll": true, "multi": true, "allValue": ".*",
                "current": {"selected": true, "text": "All", "value": "$__all"}})
        }));
        let panels: Vec<Value> =
            self.panels.iter().enumerate().map(|(at, panel)| panel.to_json(at, &source)).collect();
        json!({"uid": self.uid, "title": self.title, "tags": ["minik8s"], "schemaVersion": SCHEMA, "version": 1,
            "editable": true, "refresh": "10s", "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": variables}, "panels": panels})
    }
}

impl Panel {
    fn to_json(self, at: usize, source: &Value) -> Value {
        let targets: Vec<Value> = self
            .queries
            .iter()
            .zip('A'..)
            .map(|((expr, legend), id)| {
                json!({"datasource": source, "expr": expr, "legendFormat": legend, "refId": id.to_string(),
                    "range": true})
            })
            .collect();
        json!({"id": at + 1, "type": "timeseries", "title": self.title, "datasource": source, "targets": targets,
            "gridPos": {"x": at % 2 * WIDTH, "y": at / 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
            "fieldConfig": {"defaults": {"unit": self.unit.name(), "min": 0,
                "custom": {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"}}})
    }
}

/// One row of a table.
pub const fn panel(
    title: &'static str,
    unit: Unit,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, unit, queries }
}
