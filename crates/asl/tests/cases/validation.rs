//! Definitions that AWS (or asl-validator) accepts or refuses, and with which words.

use minik8s_asl::definition::{Definition, MachineType};
use minik8s_asl::test_state::{self, Request};
use serde_json::{Value, json};

use crate::compare::same;
use crate::single_states::request;
use crate::{Tally, read};

#[test]
#[ignore = "the recorded cases are not in this repository: ASL_CASES=DIR and --ignored"]
fn validation_matches_recordings() {
    let cases = read("validation.json");
    let mut tallies =
        [Tally::new("validation.json tier 1 (refused or not)"), Tally::new("validation.json tier 3 (words)")];
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        // Not about definitions.
        if case["expected"]["error"]["Message"] == "Version description can only be set when publish is true"
        {
            continue;
        }
        let found = answer(case, id);
        let expected = &case["expected"];
        let refused = |value: &Value| value.get("error").is_some() || value["result"] == "FAIL";
        let code = |value: &Value| value["error"]["Code"].clone();
        let alike = refused(expected) == refused(&found) && code(expected) == code(&found);
        tallies[0].count(
            id,
            if alike { Ok(()) } else { Err(format!("\n  expected {expected}\n  found    {found}")) },
        );
        // Words of the emulator the cases come from, which quote the definition in Python's form.
        if expected["error"]["Message"]
            .as_str()
            .is_some_and(|message| message.starts_with("Error=ValueError"))
        {
            continue;
        }
        let alike = same(expected, &found);
        tallies[1].count(
            id,
            if alike { Ok(()) } else { Err(format!("\n  expected {expected}\n  found    {found}")) },
        );
    }
    Tally::end_all(&tallies, &[99.0, 95.0]);
}

fn answer(case: &Value, id: &str) -> Value {
    if case["api"] == "test_state" {
        let role = !id.contains("no_role_arn");
        return match test_state::test_state(&Request { role_arn: role, ..request(case) }) {
            Ok(_) => json!({}),
            Err(refusal) => json!({"error": {"Code": refusal.code, "Message": refusal.message}}),
        };
    }
    let express = id.contains("express") || id.contains("illegal");
    let machine_type = if express { MachineType::Express } else { MachineType::Standard };
    let definition: Value = serde_json::from_str(
        &case["definition"]
            .to_string()
            .replace("create_activity()[activityArn]", "arn:aws:states:us-east-1:111111111111:activity:a"),
    )
    .unwrap();
    let checked = match &definition {
        Value::String(text) => Definition::from_text(text, machine_type),
        definition => Definition::from_value(definition, machine_type),
    };
    let refused = |diagnostics: &minik8s_asl::definition::Diagnostics| json!({"error": {"Code": "InvalidDefinition", "Message": diagnostics.to_string()}});
    match (checked, case.get("api")) {
        (Ok(_), None) => json!({"diagnostics": [], "result": "OK", "truncated": false}),
        (Ok(_), Some(_)) => json!({}),
        (Err(diagnostics), None) => {
            json!({"diagnostics": diagnostics.0, "result": "FAIL", "truncated": false})
        }
        (Err(diagnostics), Some(_)) => refused(&diagnostics),
    }
}

#[test]
#[ignore = "the recorded cases are not in this repository: ASL_CASES=DIR and --ignored"]
fn asl_validator_agrees() {
    let cases = read("asl-validator.json");
    let mut tally = Tally::new("asl-validator.json");
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let checked = match case.get("text").and_then(Value::as_str) {
            Some(text) => Definition::from_text(text, MachineType::Standard),
            None => Definition::from_value(&case["definition"], MachineType::Standard),
        };
        let outcome = match (&checked, case["valid"] == true) {
            (Ok(_), true) | (Err(_), false) => Ok(()),
            (Err(diagnostics), true) => Err(format!("refused: {diagnostics}")),
            (Ok(_), false) => Err(format!("accepted: {}", case["definition"])),
        };
        tally.count(id, outcome);
    }
    // It refuses machines without an end, expressions without spaces and JSONPath states within JSONata machines.
    Tally::end_all(&[tally], &[94.0]);
}
