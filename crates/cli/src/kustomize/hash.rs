//! Names that tell the contents: a ConfigMap that changes is another one, so what uses it starts anew.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::resource::Resource;

pub fn name(resources: &mut [Resource]) {
    for resource in resources.iter_mut().filter(|resource| resource.is_hashed) {
        let name = format!("{}-{}", resource.name(), digest(&resource.object));
        resource.rename(name);
        resource.is_hashed = false;
    }
}

/// Ten characters that make no word.
fn digest(object: &Value) -> String {
    let mut contents = Map::new();
    for field in ["binaryData", "data", "stringData"] {
        if let Some(value) = object.get(field).filter(|value| field == "data" || !value.is_null()) {
            contents.insert(field.to_owned(), sorted(value));
        }
    }
    contents.entry("data").or_insert(json!(""));
    contents.insert("kind".to_owned(), object["kind"].clone());
    contents.insert("name".to_owned(), json!(""));
    if object["kind"] == "Secret" {
        contents.insert("type".to_owned(), object["type"].clone());
    }
    let text = escaped(&sorted(&Value::Object(contents)).to_string());
    let hex: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    let plain = |letter: char| match letter {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    };
    hex.chars().take(10).map(plain).collect()
}

fn sorted(value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    let mut keys: Vec<&String> = map.keys().collect();
    keys.sort();
    Value::Object(keys.into_iter().map(|key| (key.clone(), map[key].clone())).collect())
}

/// As Go writes JSON.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(letter)))
            }
            other => out.push(other),
        }
    }
    out
}
