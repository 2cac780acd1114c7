//! What a Map does with each item, as a definition of its own: what a run of one iteration of a distributed Map runs.

use serde_json::Value;

use super::MachineType;
use crate::engine::Place;

/// The machine at a place inside of a definition, and as which type its runs are kept. None where there is none.
pub fn processor_at(definition: &Value, place: &[Place]) -> Option<(Value, MachineType)> {
    let mut machine = definition;
    for step in place {
        let state = machine.get("States")?.get(&step.state)?;
        machine = match state.get("Type")?.as_str()? {
            "Parallel" => state.get("Branches")?.get(step.branch)?,
            "Map" => state.get("ItemProcessor").or_else(|| state.get("Iterator"))?,
            _ => return None,
        };
    }
    let mut machine = machine.as_object()?.clone();
    let config = machine.shift_remove("ProcessorConfig").unwrap_or_default();
    if let (Some(language), None) = (definition.get("QueryLanguage"), machine.get("QueryLanguage")) {
        machine.insert("QueryLanguage".to_owned(), language.clone());
    }
    let machine_type = match config["ExecutionType"].as_str() {
        Some("EXPRESS") => MachineType::Express,
        _ => MachineType::Standard,
    };
    Some((Value::Object(machine), machine_type))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn processor_is_found_inside_of_branches_and_maps() {
        let inner = json!({"StartAt": "p", "States": {"p": {"Type": "Pass", "End": true}},
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"}});
        let branch =
            json!({"StartAt": "m", "States": {"m": {"Type": "Map", "ItemProcessor": inner, "End": true}}});
        let whole = json!({"QueryLanguage": "JSONata", "StartAt": "b",
            "States": {"b": {"Type": "Parallel", "Branches": [{}, branch], "End": true}}});
        let at = |state: &str, branch| Place { state: state.to_owned(), branch };
        let (found, machine_type) = processor_at(&whole, &[at("b", 1), at("m", 0)]).unwrap();
        assert_eq!(machine_type, MachineType::Express);
        assert_eq!((&found["StartAt"], &found["QueryLanguage"]), (&json!("p"), &json!("JSONata")));
        assert!(found.get("ProcessorConfig").is_none());
        assert_eq!(processor_at(&whole, &[at("b", 1), at("x", 0)]), None);
        assert_eq!(processor_at(&whole, &[at("b", 7)]), None);
    }
}
