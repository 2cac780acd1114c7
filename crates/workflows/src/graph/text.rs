//! A graph as lines of text.

use std::fmt::Write;

use super::{Graph, Visit, Visits};

pub fn text(graph: &Graph, visits: &Visits) -> String {
    let mut text = String::new();
    for node in &graph.nodes {
        let indent = "    ".repeat(node.depth);
        let begin = if node.start { "▶" } else { " " };
        let mark = match visits.get(&node.name) {
            Some(Visit::Left) => "  ✓",
            Some(Visit::Entered) => "  …",
            Some(Visit::Failed) => "  ✗",
            None => "",
        };
        let resource = node.resource.as_deref().map(|resource| format!(" {resource}")).unwrap_or_default();
        let _ = writeln!(text, "{indent}{begin} {}  {}{resource}{mark}", node.name, node.kind);
        for edge in graph.edges.iter().filter(|edge| edge.from == node.name) {
            let label = match edge.label.as_str() {
                "" => String::new(),
                label if node.kind == "Choice" && label != "otherwise" => format!("  if {label}"),
                label => format!("  {label}"),
            };
            let _ = writeln!(text, "{indent}    → {}{label}", edge.to);
        }
        if node.end {
            let _ = writeln!(text, "{indent}    ■");
        }
    }
    text
}
