//! Map: what is done with each item, inline or as runs of their own.

use serde_json::Value;

use super::fields::Object;
use super::read::Reader;
use super::{Jsonata, Language, Machine, NumberField, Query, Template};

#[derive(Debug, Clone)]
pub struct MapState {
    pub processor: Machine,
    pub distributed: bool,
    pub items: Items,
    /// ItemSelector, or Parameters as they were before.
    pub selector: Option<Template>,
    pub batcher: Option<Batcher>,
    /// Where items are read from and results are written to, when not from and to the data.
    pub reader: Option<Template>,
    pub writer: Option<Template>,
    /// What the reader read, when somebody tests the state.
    pub read_items: Option<Value>,
    pub max_concurrency: Option<NumberField>,
    pub tolerated_count: Option<NumberField>,
    pub tolerated_percentage: Option<NumberField>,
    pub label: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Items {
    /// The whole input.
    Input,
    Path(Query),
    Jsonata(Jsonata),
    Template(Template),
}

/// Several items for each iteration.
#[derive(Debug, Clone)]
pub struct Batcher {
    pub most_items: Option<NumberField>,
    pub most_bytes: Option<NumberField>,
    pub input: Option<Template>,
}

impl Reader {
    pub(super) fn map(&mut self, object: &Object, language: Language, location: &str) -> Option<MapState> {
        if object.contains_key("ItemProcessor") && object.contains_key("Iterator") {
            self.schema(location, "You cannot specify both 'ItemProcessor' and 'Iterator'");
        }
        let field = if object.contains_key("Iterator") { "Iterator" } else { "ItemProcessor" };
        let here = format!("{location}/{field}");
        let Some(Value::Object(processor)) = object.get(field) else {
            self.schema(location, "These fields are required: [ItemProcessor]");
            return None;
        };
        let distributed = self.processor_config(processor, &here)?;
        let machine = self.machine(
            processor,
            &here,
            &["Comment", "StartAt", "States", "ProcessorConfig", "QueryLanguage"],
        )?;
        let items = self.items(object, language, location);
        let computed = |reader: &mut Self, field: &str| {
            object
                .get(field)
                .map(|value| reader.template(value, language, &format!("{location}/{field}"), field))
        };
        if object.contains_key("ItemSelector") && object.contains_key("Parameters") {
            self.schema(location, "You cannot specify both 'ItemSelector' and 'Parameters'");
        }
        let selector = match object.contains_key("ItemSelector") {
            true => computed(self, "ItemSelector"),
            false if language == Language::JsonPath => computed(self, "Parameters"),
            false => None,
        };
        self.reader_config(object, location);
        Some(MapState {
            processor: machine,
            distributed,
            items,
            selector,
            batcher: self.batcher(object, language, location),
            reader: computed(self, "ItemReader"),
            writer: computed(self, "ResultWriter"),
            read_items: None,
            max_concurrency: self.number(object, "MaxConcurrency", language, location, 0.0),
            tolerated_count: self.number(object, "ToleratedFailureCount", language, location, 0.0),
            tolerated_percentage: self.percentage(object, language, location),
            label: self.label(object, location),
        })
    }

    fn processor_config(&mut self, processor: &Object, location: &str) -> Option<bool> {
        let here = format!("{location}/ProcessorConfig");
        let config = match processor.get("ProcessorConfig") {
            None => return Some(false),
            Some(Value::Object(config)) => config,
            Some(_) => {
                self.schema(&here, "Expected value of type Object");
                return None;
            }
        };
        self.allow(config, &["Mode", "ExecutionType"], &here);
        match config.get("Mode").map(Value::as_str) {
            None | Some(Some("INLINE")) => Some(false),
            Some(Some("DISTRIBUTED")) => Some(true),
            Some(_) => {
                self.schema(
                    &format!("{here}/Mode"),
                    "The field 'Mode' should have one of these values: [INLINE, DISTRIBUTED]",
                );
                None
            }
        }
    }

    fn items(&mut self, object: &Object, language: Language, location: &str) -> Items {
        match language {
            Language::JsonPath => match object.get("ItemsPath") {
                None => Items::Input,
                Some(path) => {
                    self.query(path, &format!("{location}/ItemsPath")).map_or(Items::Input, Items::Path)
                }
            },
            Language::Jsonata => match object.get("Items") {
                None => Items::Input,
                Some(Value::String(text)) => {
                    let here = format!("{location}/Items");
                    match self.jsonata(text, &here, "Items") {
                        Some(jsonata) => Items::Jsonata(jsonata),
                        None => {
                            self.schema(&here, "Expected value of type Array or a JSONata expression");
                            Items::Input
                        }
                    }
                }
                Some(value) => {
                    Items::Template(self.template(value, language, &format!("{location}/Items"), "Items"))
                }
            },
        }
    }

    fn batcher(&mut self, object: &Object, language: Language, location: &str) -> Option<Batcher> {
        let here = format!("{location}/ItemBatcher");
        let batcher = match object.get("ItemBatcher")? {
            Value::Object(batcher) => batcher,
            _ => {
                self.schema(&here, "Expected value of type Object");
                return None;
            }
        };
        let most_items = self.number(batcher, "MaxItemsPerBatch", language, &here, 1.0);
        let most_bytes = self.number(batcher, "MaxInputBytesPerBatch", language, &here, 1.0);
        if most_items.is_none() && most_bytes.is_none() {
            self.schema(&here, "One of these fields is required: [MaxItemsPerBatch, MaxInputBytesPerBatch]");
        }
        let input = batcher.get("BatchInput").map(|input| {
            self.template(input, language, &format!("{here}/BatchInput"), "ItemBatcher/BatchInput")
        });
        Some(Batcher { most_items, most_bytes, input })
    }

    fn percentage(&mut self, object: &Object, language: Language, location: &str) -> Option<NumberField> {
        let percentage = self.number(object, "ToleratedFailurePercentage", language, location, 0.0);
        if matches!(percentage, Some(NumberField::Constant(constant)) if constant > 100.0) {
            let here = format!("{location}/ToleratedFailurePercentage");
            self.schema(&here, "The value of 'ToleratedFailurePercentage' cannot be more than 100");
        }
        percentage
    }

    fn reader_config(&mut self, object: &Object, location: &str) {
        for field in ["ItemReader", "ResultWriter"] {
            let here = format!("{location}/{field}");
            match object.get(field) {
                None => {}
                Some(Value::Object(reader)) => {
                    if field == "ItemReader" {
                        self.required_text(reader, "Resource", &here);
                    }
                    if let Some(Value::Object(config)) = reader.get("ReaderConfig")
                        && config.contains_key("MaxItems")
                        && config.contains_key("MaxItemsPath")
                    {
                        self.schema(
                            &format!("{here}/ReaderConfig"),
                            "You cannot specify both 'MaxItems' and 'MaxItemsPath'",
                        );
                    }
                }
                Some(_) => self.schema(&here, "Expected value of type Object"),
            }
        }
    }

    fn label(&mut self, object: &Object, location: &str) -> Option<String> {
        let label = object.get("Label")?;
        let here = format!("{location}/Label");
        let Some(label) = label.as_str() else {
            self.schema(&here, "Expected value of type String");
            return None;
        };
        if label.is_empty() {
            self.schema(&here, "Label cannot be empty");
        } else if label.chars().count() > 40 {
            self.schema(&here, "Label cannot exceed 40 characters");
        } else if let Some(bad) = label.chars().find(|c| is_refused_in_label(*c)) {
            self.schema(&here, format!("Label contains invalid character: '{bad}'"));
        }
        Some(label.to_owned())
    }
}

/// Spaces, wildcards, brackets, special characters and control characters.
fn is_refused_in_label(character: char) -> bool {
    character.is_whitespace() || character.is_control() || "?*<>{}[]:;,\\|^~$#%&`\"/".contains(character)
}
