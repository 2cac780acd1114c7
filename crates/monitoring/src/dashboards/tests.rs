use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

#[test]
fn files_are_json_and_each_stands_once() {
    let files = files("http://user:p\"x@prom:9090");
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), files.len());
    for (name, content) in &files {
        let value: Value = serde_json::from_str(content).unwrap_or_else(|error| panic!("{name}: {error}"));
        if name.starts_with("provisioning/datasources") {
            assert_eq!(value["datasources"][0]["url"], "http://user:p\"x@prom:9090");
        }
    }
}

#[test]
fn panels_stand_side_by_side_and_use_known_variables() {
    for dashboard in DASHBOARDS {
        let json = dashboard.to_json();
        let mut places = BTreeSet::new();
        for panel in json["panels"].as_array().unwrap() {
            let place = (panel["gridPos"]["x"].as_u64(), panel["gridPos"]["y"].as_u64());
            assert!(places.insert(place), "{}: {}", dashboard.title, panel["title"]);
        }
        for panel in dashboard.panels {
            assert!(!panel.queries.is_empty(), "{}", panel.title);
            for (expr, _) in panel.queries {
                for part in expr.split('$').skip(1) {
                    let name: String =
                        part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    let is_known = name == "__rate_interval"
                        || dashboard.variables.iter().any(|variable| variable.name == name);
                    assert!(is_known, "{}: {} uses ${name}", dashboard.title, panel.title);
                }
            }
        }
    }
}
