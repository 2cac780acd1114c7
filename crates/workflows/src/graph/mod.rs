//! A definition as a graph, drawn as text or SVG, with what a run did. Pure, and without places: those are a drawing's.

mod svg;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

pub use svg::svg;
pub use text::text;

/// States and how they follow each other. Branches and iterations lie below their state.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// The state's name: unique in a definition.
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// How deep inside of Parallel and Map states.
    pub depth: usize,
    pub start: bool,
    pub end: bool,
    /// What a Task runs.
    pub resource: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edge {
    pub from: String,
    pub to: String,
    /// A condition, an error that is caught, or which branch.
    pub label: String,
}

/// What a run did in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Visit {
    Entered,
    Left,
    Failed,
}

/// By the names of states.
pub type Visits = BTreeMap<String, Visit>;

/// The graph of a definition in the States Language. What is wrong in it is left out.
pub fn graph(definition: &Value) -> Graph {
    let mut graph = Graph::default();
    let converted = minik8s_asl::simple_form::convert(definition).and_then(Result::ok);
    machine(converted.as_ref().unwrap_or(definition), 0, &mut graph);
    graph
}

fn machine(machine: &Value, depth: usize, graph: &mut Graph) {
    let start = machine["StartAt"].as_str().unwrap_or_default();
    for (name, state) in machine["States"].as_object().into_iter().flatten() {
        let kind = state["Type"].as_str().unwrap_or_default().to_owned();
        let end = state["End"] == true || matches!(kind.as_str(), "Succeed" | "Fail");
        let resource = state["Resource"].as_str().map(str::to_owned);
        graph.nodes.push(Node { name: name.clone(), kind, depth, start: name == start, end, resource });
        edges(name, state, depth, graph);
    }
}

fn edges(name: &str, state: &Value, depth: usize, graph: &mut Graph) {
    let mut edge = |to: &Value, label: String| {
        if let Some(to) = to.as_str() {
            graph.edges.push(Edge { from: name.to_owned(), to: to.to_owned(), label });
        }
    };
    edge(&state["Next"], String::new());
    for choice in state["Choices"].as_array().into_iter().flatten() {
        edge(&choice["Next"], condition(choice));
    }
    edge(&state["Default"], "otherwise".to_owned());
    for catcher in state["Catch"].as_array().into_iter().flatten() {
        let errors = catcher["ErrorEquals"].as_array().into_iter().flatten().filter_map(Value::as_str);
        edge(&catcher["Next"], format!("on {}", errors.collect::<Vec<_>>().join(", ")));
    }
    let branches = state["Branches"].as_array().into_iter().flatten();
    let inner = branches.chain(state.get("ItemProcessor")).chain(state.get("Iterator"));
    for (index, inner) in inner.enumerate() {
        let label =
            if state["Type"] == "Map" { "each item".to_owned() } else { format!("branch {}", index + 1) };
        let mut edge = |to: &Value, label: String| {
            if let Some(to) = to.as_str() {
                graph.edges.push(Edge { from: name.to_owned(), to: to.to_owned(), label });
            }
        };
        edge(&inner["StartAt"], label);
        machine(inner, depth + 1, graph);
    }
}

/// `$.sum >= 11`, `not ($.a = "x")`, or the expression itself.
fn condition(rule: &Value) -> String {
    if let Some(text) = rule["Condition"].as_str() {
        return text.trim_start_matches("{%").trim_end_matches("%}").trim().to_owned();
    }
    let joined = |rules: &Value, word: &str| {
        let all = rules.as_array().into_iter().flatten().map(condition);
        all.collect::<Vec<_>>().join(word)
    };
    if !rule["Not"].is_null() {
        return format!("not ({})", condition(&rule["Not"]));
    }
    if !rule["And"].is_null() {
        return joined(&rule["And"], " and ");
    }
    if !rule["Or"].is_null() {
        return joined(&rule["Or"], " or ");
    }
    let variable = rule["Variable"].as_str().unwrap_or("$");
    let operator = rule.as_object().into_iter().flatten();
    let mut operator = operator
        .filter(|(key, _)| !matches!(key.as_str(), "Variable" | "Next" | "Assign" | "Comment" | "Output"));
    let Some((name, operand)) = operator.next() else { return variable.to_owned() };
    let sign = match name.trim_end_matches("Path") {
        name if name.ends_with("GreaterThanEquals") => ">=",
        name if name.ends_with("LessThanEquals") => "<=",
        name if name.ends_with("GreaterThan") => ">",
        name if name.ends_with("LessThan") => "<",
        name if name.ends_with("Equals") => "=",
        name => name,
    };
    format!("{variable} {sign} {operand}")
}

/// What a run's history (in AWS' shape) says of each state.
pub fn visits(events: &[Value]) -> Visits {
    let mut visits = Visits::new();
    let mut open: Vec<String> = Vec::new();
    for event in events {
        let kind = event["type"].as_str().unwrap_or_default();
        let name = |details: &str| event[details]["name"].as_str().map(str::to_owned);
        if let Some(name) = name("stateEnteredEventDetails") {
            visits.insert(name.clone(), Visit::Entered);
            open.push(name);
        } else if let Some(name) = name("stateExitedEventDetails") {
            open.retain(|other| *other != name);
            visits.insert(name, Visit::Left);
        } else if matches!(kind, "ExecutionFailed" | "ExecutionTimedOut" | "ExecutionAborted") {
            // Whatever was not left is where it ended.
            for name in open.drain(..) {
                visits.insert(name, Visit::Failed);
            }
        }
    }
    visits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        json!({"StartAt": "add", "States": {
            "add": {"Type": "Task", "Resource": "function:add", "Next": "judge", "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "sorry"}]},
            "judge": {"Type": "Choice", "Choices": [{"Variable": "$.sum", "NumericGreaterThanEquals": 11, "Next": "both"}], "Default": "done"},
            "both": {"Type": "Parallel", "Branches": [{"StartAt": "x<y", "States": {"x<y": {"Type": "Pass", "End": true}}}], "Next": "done"},
            "sorry": {"Type": "Fail"},
            "done": {"Type": "Succeed"}}})
    }

    #[test]
    fn graph_has_conditions_errors_and_branches_on_its_edges() {
        let graph = graph(&definition());
        let edges: Vec<String> =
            graph.edges.iter().map(|edge| format!("{} -> {} {}", edge.from, edge.to, edge.label)).collect();
        assert_eq!(
            edges,
            [
                "add -> judge ",
                "add -> sorry on States.ALL",
                "judge -> both $.sum >= 11",
                "judge -> done otherwise",
                "both -> done ",
                "both -> x<y branch 1"
            ]
        );
        assert_eq!(graph.nodes.iter().filter(|node| node.start && node.depth == 0).count(), 1);
    }

    #[test]
    fn drawings_show_the_path_taken() {
        let graph = graph(&definition());
        let visits = Visits::from([("add".to_owned(), Visit::Left), ("judge".to_owned(), Visit::Failed)]);
        let drawn = text(&graph, &visits);
        assert!(drawn.contains("add  Task function:add  ✓"), "{drawn}");
        assert!(drawn.contains("judge  Choice  ✗"), "{drawn}");
        assert!(drawn.contains("→ both  if $.sum >= 11"), "{drawn}");
        let drawn = svg(&graph, &visits);
        assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"), "{drawn}");
        assert!(drawn.contains("x&lt;y") && !drawn.contains("x<y"), "names are escaped");
        assert!(drawn.contains("class=\"left\"") && drawn.contains("class=\"failed\""));
    }
}
