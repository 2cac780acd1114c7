//! The schemas of one OpenAPI v3 document, with references followed.

use serde_json::{Map, Value};

use crate::discovery::Kind;

const PREFIX: &str = "#/components/schemas/";

pub struct Schemas {
    document: Value,
}

impl Schemas {
    pub fn new(document: Value) -> Schemas {
        Schemas { document }
    }

    pub fn of_kind(&self, kind: &Kind) -> Option<&Value> {
        let all = self.document["components"]["schemas"].as_object()?;
        all.values().find(|schema| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.into_iter().flatten().any(|known| {
                known["group"] == kind.group && known["version"] == kind.version && known["kind"] == kind.kind
            })
        })
    }

    fn reference(schema: &Value) -> Option<&str> {
        let direct = schema["$ref"].as_str();
        let wrapped = schema["allOf"][0]["$ref"].as_str();
        direct.or(wrapped)?.strip_prefix(PREFIX)
    }

    /// What a reference refers to; the schema itself if it is none.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match Self::reference(schema) {
            Some(name) => &self.document["components"]["schemas"][name],
            None => schema,
        }
    }

    /// The schema of an object, of a list's items, or of a map's values.
    pub fn inner<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let schema = self.resolved(schema);
        if schema["items"].is_object() {
            return self.inner(&schema["items"]);
        }
        if schema["additionalProperties"].is_object() && !schema["properties"].is_object() {
            return self.inner(&schema["additionalProperties"]);
        }
        schema
    }

    pub fn fields<'a>(&'a self, schema: &'a Value) -> Option<&'a Map<String, Value>> {
        self.inner(schema)["properties"].as_object()
    }

    /// `[]Container`, `map[string]string`, `integer`.
    pub fn type_name(&self, schema: &Value) -> String {
        if let Some(name) = Self::reference(schema) {
            let short = name.rsplit('.').next().unwrap_or(name);
            // A moment is written as text.
            return if matches!(short, "Time" | "MicroTime") {
                "string".to_owned()
            } else {
                short.to_owned()
            };
        }
        if schema["items"].is_object() {
            return format!("[]{}", self.type_name(&schema["items"]));
        }
        if schema["additionalProperties"].is_object() {
            return format!("map[string]{}", self.type_name(&schema["additionalProperties"]));
        }
        match schema["type"].as_str() {
            Some("object") | None if schema["x-kubernetes-int-or-string"] != true => "Object".to_owned(),
            None => "IntOrString".to_owned(),
            Some(name) => name.to_owned(),
        }
    }

    /// The field's own description, then that of what it refers to.
    pub fn descriptions(&self, schema: &Value) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |schema: &Value| {
            let text = schema["description"].as_str().map(str::to_owned).filter(|text| !text.is_empty());
            if let Some(text) = text.filter(|text| !all.contains(text)) {
                all.push(text);
            }
        };
        add(schema);
        add(self.resolved(schema));
        add(self.inner(schema));
        all
    }
}
