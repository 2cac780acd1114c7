//! `minik8s function calls`: the last calls of a function on all nodes, as their routers remember them.

use anyhow::Context;
use jiff::Timestamp;
use kube::{Api, Client};
use minik8s_meta::function_call::{FunctionCall, FunctionCallList};
use minik8s_meta::human_duration;

use super::get;
use crate::output;

pub async fn run(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    get(&Api::namespaced(client.clone(), namespace), namespace, name).await?;
    let path = format!("/apis/minik8s.io/v1/namespaces/{namespace}/functions/{name}/calls");
    let request = http::Request::get(path).body(Vec::new())?;
    let list: FunctionCallList =
        client.request(request).await.with_context(|| format!("cannot read the calls of function {name}"))?;
    output::text(show(&list, Timestamp::now()))?;
    Ok(())
}

/// Pure.
fn show(list: &FunctionCallList, now: Timestamp) -> String {
    let mut text = String::new();
    if list.items.is_empty() {
        text.push_str("no call is remembered: routers keep the last ones in memory, from their start on\n");
    } else {
        let head = ["AGE", "METHOD", "STATUS", "START", "MS", "WAITED", "REVISION", "NODE", "POD"];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(list.items.iter().map(|call| row(call, now)));
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: [usize; 9] = std::array::from_fn(width);
        for row in &rows {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            text.push_str(cells.join("   ").trim_end());
            text.push('\n');
        }
    }
    for node in &list.unreachable {
        text.push_str(&format!("node {node} does not answer: its calls are missing\n"));
    }
    text
}

fn row(call: &FunctionCall, now: Timestamp) -> [String; 9] {
    let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    [
        human_duration((now.as_second() - call.at.0.as_second()).max(0)),
        call.method.clone(),
        call.status.to_string(),
        if call.cold { "cold" } else { "warm" }.to_owned(),
        format!("{:.1}", call.milliseconds),
        format!("{:.1}", call.waited_milliseconds),
        if call.revision > 0 { call.revision.to_string() } else { or_none(&call.revision_hash) },
        or_none(&call.node),
        or_none(&call.pod),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_lines_of_a_table() {
        let list: FunctionCallList = serde_json::from_value(json!({
            "items": [
                {"at": "2026-01-01T00:00:50.000000Z", "method": "POST", "status": 200, "cold": true,
                 "milliseconds": 341.25, "waitedMilliseconds": 330.0, "revision": 2, "revisionHash": "ab",
                 "pod": "f-1", "node": "n1"},
                {"at": "2026-01-01T00:00:20.000000Z", "method": "GET", "status": 429, "cold": false,
                 "milliseconds": 0.04, "waitedMilliseconds": 0.04, "node": "n1"},
            ],
            "unreachable": ["n2"],
        }))
        .unwrap();
        let text = show(&list, "2026-01-01T00:01:00Z".parse().unwrap());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["10s", "POST", "200", "cold", "341.2", "330.0", "2", "n1", "f-1"]);
        assert_eq!(lines[2], ["40s", "GET", "429", "warm", "0.0", "0.0", "-", "n1", "-"]);
        assert_eq!(lines[3].join(" "), "node n2 does not answer: its calls are missing");
        let none = show(&FunctionCallList::default(), Timestamp::UNIX_EPOCH);
        assert!(none.starts_with("no call is remembered"), "{none}");
    }
}
