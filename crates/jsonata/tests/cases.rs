//! The official suite, where the environment variable ASL_CASES names the folder that holds it as data; without it the
//! test is reported as ignored.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use minik8s_jsonata::{Bound, Expression, Limits, Outcome, Surroundings};
use serde_json::{Map, Value};

/// How many of the readable cases pass; raise it when more do.
const FLOOR: f64 = 99.9;

#[test]
#[ignore = "the official suite is not in this repository: ASL_CASES=DIR and --ignored"]
fn jsonata_suite_stays_above_floor() {
    let folder = std::env::var("ASL_CASES").expect("ASL_CASES names the folder of recorded cases");
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(format!("{folder}/{name}")).unwrap()).unwrap()
    };
    let datasets = read("jsonata-datasets.json");
    let cases = read("jsonata.json");
    let cases = cases.as_array().unwrap();
    let (mut passed, mut groups) = (0, BTreeMap::<String, Vec<String>>::new());
    let only = std::env::var("ONLY").ok();
    for case in cases {
        let id = case["id"].as_str().unwrap();
        if only.as_ref().is_some_and(|only| !id.contains(only.as_str())) {
            continue;
        }
        match std::thread::scope(|scope| {
            std::thread::Builder::new()
                .stack_size(64 << 20)
                .spawn_scoped(scope, || check(case, &datasets))
                .unwrap()
                .join()
                .unwrap_or(Err("panicked".into()))
        }) {
            Ok(()) => passed += 1,
            Err(reason) => {
                groups.entry(id.split('/').next().unwrap_or(id).to_owned()).or_default().push(format!(
                    "{id}: {} => {reason}",
                    case["expr"].as_str().unwrap_or_default().chars().take(160).collect::<String>()
                ));
            }
        }
    }
    for failures in groups.values() {
        for failure in failures {
            println!("{failure}");
        }
    }
    let share = 100.0 * f64::from(passed) / cases.len() as f64;
    println!("jsonata.json: {passed} of {} pass ({share:.2} %)", cases.len());
    assert!(only.is_some() || share >= FLOOR, "{share:.2} % is below {FLOOR} %");
}

fn check(case: &Value, datasets: &Value) -> Result<(), String> {
    let data = match (case.get("data"), case.get("dataset").and_then(Value::as_str)) {
        (Some(data), _) => Some(data.clone()),
        (None, Some(name)) => Some(datasets[name].clone()),
        _ => None,
    };
    let empty = Map::new();
    let bindings = case.get("bindings").and_then(Value::as_object).unwrap_or(&empty);
    // One case counts to ten million.
    let mut limits = Limits { bytes: 4 << 30, steps: 20_000_000, ..Limits::default() };
    if let Some(depth) = case.get("depth").and_then(Value::as_u64) {
        limits.depth = depth as usize;
    }
    let around = Surroundings {
        bindings: bindings.iter().map(|(name, value)| (name.as_str(), Bound::from(value))).collect(),
        limits,
        now: 1_700_000_000_000,
        ..Surroundings::default()
    };
    let outcome = Expression::parse(case["expr"].as_str().unwrap())
        .and_then(|expression| expression.evaluate(data.as_ref(), &around));
    let code = case
        .get("code")
        .or_else(|| case.get("error").and_then(|error| error.get("code")))
        .and_then(Value::as_str);
    match (outcome, code) {
        (Err(error), Some(code)) if error.code == code => Ok(()),
        (Err(error), Some(code)) => Err(format!("expected {code}, got {}: {}", error.code, error.message)),
        (Ok(outcome), Some(code)) => Err(format!("expected {code}, got {outcome:?}")),
        (Err(error), None) => Err(format!("error {}: {}", error.code, error.message)),
        (Ok(outcome), None) => {
            let expected = match case.get("result") {
                Some(value) => Outcome::Value(value.clone()),
                None => Outcome::Undefined,
            };
            if same(&outcome, &expected) {
                Ok(())
            } else {
                Err(format!("expected {expected:?}, got {outcome:?}"))
            }
        }
    }
}

fn same(a: &Outcome, b: &Outcome) -> bool {
    match (a, b) {
        (Outcome::Value(a), Outcome::Value(b)) => equal(a, b),
        _ => a == b,
    }
}

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        // The suite compares with a tolerance too.
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
            a == b || (a - b).abs() <= 1e-10 * a.abs().max(b.abs())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}
