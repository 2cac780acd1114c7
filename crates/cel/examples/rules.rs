//! How long a validation by a hundred rules takes: `cargo run --release -p minik8s-cel --example rules`.

use std::time::Instant;

use minik8s_cel::rules::Rules;
use serde_json::{Value, json};

const OBJECTS: u32 = 20_000;

fn main() {
    let (schema, object) = (schema(), object());
    let started = Instant::now();
    let rules = Rules::compile(&schema);
    println!("compiled 100 rules in {:?}", started.elapsed());
    let findings = rules.validate(&object, Some(&object));
    assert!(findings.errors.is_empty(), "{:?}", findings.errors);
    let started = Instant::now();
    for _ in 0..OBJECTS {
        std::hint::black_box(rules.validate(std::hint::black_box(&object), Some(&object)));
    }
    println!("{:.1} µs an object with 100 rules", started.elapsed().as_secs_f64() * 1e6 / f64::from(OBJECTS));
}

/// Twenty fields with five rules each: a range, a pattern, a comparison, a list, what it was before.
fn schema() -> Value {
    let field = json!({"type": "object", "properties": {
        "replicas": {"type": "integer"}, "most": {"type": "integer"},
        "name": {"type": "string", "maxLength": 63}, "kind": {"type": "string"},
        "ports": {"type": "array", "maxItems": 10, "items": {"type": "object", "properties": {"number": {"type": "integer"}}}},
    }, "x-kubernetes-validations": [
        {"rule": "self.replicas >= 1 && self.replicas <= self.most"},
        {"rule": "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"},
        {"rule": "self.kind in ['One', 'Two', 'Three'] || has(self.most)"},
        {"rule": "self.ports.all(p, p.number > 0 && p.number < 65536)"},
        {"rule": "self.kind == oldSelf.kind"},
    ]});
    let properties: serde_json::Map<String, Value> =
        (0..20).map(|index| (format!("field{index}"), field.clone())).collect();
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

fn object() -> Value {
    let field = json!({"replicas": 3, "most": 10, "name": "a-name-of-some-length", "kind": "Two",
        "ports": [{"number": 80}, {"number": 443}, {"number": 8080}]});
    let fields: serde_json::Map<String, Value> =
        (0..20).map(|index| (format!("field{index}"), field.clone())).collect();
    json!({"apiVersion": "a/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": fields})
}
