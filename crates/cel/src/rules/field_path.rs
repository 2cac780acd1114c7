//! The `fieldPath` of a rule: `.spec.name`, `.labels['a.b']`. It may name fields and keys, no elements of lists.

use serde_json::Value as Json;

/// The path as errors show it, or why it leads nowhere in the schema.
pub fn normalized(path: &str, schema: &Json) -> Result<String, String> {
    let mut schema = schema;
    let mut found = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = step(rest)?;
        rest = after;
        if let Some(properties) = schema["properties"].as_object() {
            schema = properties.get(&name).ok_or("does not refer to a valid field")?;
            if !found.is_empty() {
                found.push('.');
            }
            found.push_str(&name);
        } else if schema["additionalProperties"].is_object() {
            schema = &schema["additionalProperties"];
            found.push_str(&format!("[{name}]"));
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
    }
    Ok(found)
}

fn step(path: &str) -> Result<(String, &str), String> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        if end == 0 {
            return Err("unexpected end of JSON path".to_owned());
        }
        return Ok((rest[..end].to_owned(), &rest[end..]));
    }
    let Some(rest) = path.strip_prefix("['") else {
        return Err(format!("expected [ or . but got: {path}"));
    };
    let mut name = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' => {
                let after = rest[at + 1..].strip_prefix(']').ok_or("expected ] behind the quote")?;
                return Ok((name, after));
            }
            '\\' => name.push(match characters.next() {
                Some((_, 'n')) => '\n',
                Some((_, 't')) => '\t',
                Some((_, same @ ('\'' | '\\'))) => same,
                _ => return Err("invalid string literal: invalid escape char".to_owned()),
            }),
            other => name.push(other),
        }
    }
    Err("unexpected end of JSON path".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn paths_lead_to_fields_of_the_schema() {
        let schema = json!({"properties": {"spec": {"properties": {
            "name": {"type": "string"}, "a.b": {"type": "string"},
            "labels": {"additionalProperties": {"type": "string"}}}}}});
        let found = |path| super::normalized(path, &schema);
        assert_eq!(found(".spec.name").as_deref(), Ok("spec.name"));
        assert_eq!(found("['spec'].name").as_deref(), Ok("spec.name"));
        assert_eq!(found(".spec['a.b']").as_deref(), Ok("spec.a.b"));
        assert_eq!(found(".spec.labels['x/y']").as_deref(), Ok("spec.labels[x/y]"));
        for wrong in [".spec.other", "spec.name", ".spec[0]", ".spec.", ".spec['a"] {
            assert!(found(wrong).is_err(), "{wrong}");
        }
    }
}
