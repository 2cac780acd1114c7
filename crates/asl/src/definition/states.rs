//! Reading one state: which fields its type has in its query language, and what they hold.

use serde_json::Value;

use super::fields::Object;
use super::read::Reader;
use super::{
    Kind, Language, Machine, MachineType, Placement, Selection, State, Task, Transition, Wait,
    resource::Resource,
};

const TYPES: &[&str] = &["Task", "Wait", "Pass", "Succeed", "Fail", "Choice", "Parallel", "Map"];

/// Fields of a type in both languages, in JSONPath only, in JSONata only.
fn known_fields(kind: &str) -> (&'static [&'static str], &'static [&'static str], &'static [&'static str]) {
    match kind {
        "Pass" => (
            &["Next", "End", "Assign"],
            &["InputPath", "OutputPath", "Parameters", "Result", "ResultPath"],
            &["Output"],
        ),
        "Task" => (
            &[
                "Next",
                "End",
                "Assign",
                "Resource",
                "Retry",
                "Catch",
                "TimeoutSeconds",
                "HeartbeatSeconds",
                "Credentials",
            ],
            &[
                "InputPath",
                "OutputPath",
                "Parameters",
                "ResultSelector",
                "ResultPath",
                "TimeoutSecondsPath",
                "HeartbeatSecondsPath",
            ],
            &["Arguments", "Output"],
        ),
        "Choice" => (&["Choices", "Default", "Assign"], &["InputPath", "OutputPath"], &["Output"]),
        "Wait" => (
            &["Next", "End", "Assign", "Seconds", "Timestamp"],
            &["InputPath", "OutputPath", "SecondsPath", "TimestampPath"],
            &["Output"],
        ),
        "Succeed" => (&[], &["InputPath", "OutputPath"], &["Output"]),
        "Fail" => (&["Error", "Cause"], &["ErrorPath", "CausePath"], &[]),
        "Parallel" => (
            &["Next", "End", "Assign", "Branches", "Retry", "Catch"],
            &["InputPath", "OutputPath", "Parameters", "ResultSelector", "ResultPath"],
            &["Arguments", "Output"],
        ),
        _ => (
            &[
                "Next",
                "End",
                "Assign",
                "Retry",
                "Catch",
                "ItemProcessor",
                "Iterator",
                "ItemSelector",
                "ItemReader",
                "ItemBatcher",
                "ResultWriter",
                "MaxConcurrency",
                "ToleratedFailureCount",
                "ToleratedFailurePercentage",
                "Label",
            ],
            &[
                "InputPath",
                "OutputPath",
                "Parameters",
                "ResultSelector",
                "ResultPath",
                "ItemsPath",
                "MaxConcurrencyPath",
                "ToleratedFailureCountPath",
                "ToleratedFailurePercentagePath",
            ],
            &["Items", "Output"],
        ),
    }
}

impl Reader {
    pub(super) fn state(&mut self, name: &str, object: &Object, location: &str) -> Option<State> {
        let Some(kind) = object.get("Type") else {
            self.schema(location, "These fields are required: [Type]");
            return None;
        };
        let Some(kind) = kind.as_str().filter(|kind| TYPES.contains(kind)) else {
            self.schema(
                &format!("{location}/Type"),
                format!("The field 'Type' should have one of these values: [{}]", TYPES.join(", ")),
            );
            return None;
        };
        let own = self.query_language(object, location);
        if own == Some(Language::JsonPath) && self.language == Language::Jsonata {
            self.schema(
                location,
                "'QueryLanguage' can not be 'JSONPath' if set to 'JSONata' for whole state machine",
            );
        }
        let language = own.unwrap_or(self.language);
        let known = self.check_fields(kind, object, language, location);
        let transition = self.transition(kind, object, location)?;
        let computed = |reader: &mut Self, field: &str| {
            object
                .get(field)
                .filter(|_| known.contains(&field))
                .map(|value| reader.template(value, language, &format!("{location}/{field}"), field))
        };
        let parameters = match language {
            Language::JsonPath if kind == "Map" => None,
            Language::JsonPath => computed(self, "Parameters"),
            Language::Jsonata => computed(self, "Arguments"),
        };
        let result_selector = computed(self, "ResultSelector");
        let output = computed(self, "Output");
        let (input_path, output_path, result_path) = match language {
            Language::JsonPath => (
                self.selection(object, "InputPath", location),
                self.selection(object, "OutputPath", location),
                self.placement(object, location),
            ),
            Language::Jsonata => (Selection::All, Selection::All, Placement::Replace),
        };
        let assign = self.assign(object, language, location, "Assign");
        let retry = self.retry(object, location);
        let catch = self.catch(object, language, location);
        let kind = self.kind(kind, object, language, location)?;
        Some(State {
            name: name.to_owned(),
            language,
            kind,
            transition,
            input_path,
            output_path,
            parameters,
            result_selector,
            result_path,
            assign,
            output,
            retry,
            catch,
        })
    }

    /// The fields that the state may have; others are reported.
    fn check_fields(
        &mut self,
        kind: &str,
        object: &Object,
        language: Language,
        location: &str,
    ) -> Vec<&'static str> {
        let (both, path, jsonata) = known_fields(kind);
        let mut known = vec!["Type", "Comment", "QueryLanguage"];
        known.extend(both);
        let (own_fields, other_fields) = match language {
            Language::JsonPath => (path, jsonata),
            Language::Jsonata => (jsonata, path),
        };
        known.extend(own_fields);
        let (other, elsewhere): (Vec<&str>, Vec<&str>) = object
            .keys()
            .map(String::as_str)
            .filter(|field| !known.contains(field))
            .partition(|field| other_fields.contains(field));
        for field in other {
            let (here, there) = match language {
                Language::JsonPath => ("JSONPath", "JSONata"),
                Language::Jsonata => ("JSONata", "JSONPath"),
            };
            let message = format!(
                "The QueryLanguage is set to '{here}', but field '{field}' is only supported for the '{there}' \
                 QueryLanguage"
            );
            self.misplaced_field(location, field, message, &known.join(", "));
        }
        for field in elsewhere {
            self.unknown_field(location, field, &known.join(", "));
        }
        known
    }

    fn transition(&mut self, kind: &str, object: &Object, location: &str) -> Option<Transition> {
        if matches!(kind, "Choice" | "Succeed" | "Fail") {
            return Some(Transition::End);
        }
        match (object.get("Next"), object.get("End")) {
            (Some(_), Some(end)) if *end != Value::Bool(false) => {
                self.schema(location, "You cannot specify both 'Next' and 'End'");
                None
            }
            (Some(Value::String(next)), _) => {
                self.target(next, "Next", location);
                Some(Transition::Next(next.clone()))
            }
            (Some(_), _) => {
                self.schema(&format!("{location}/Next"), "Expected value of type String");
                None
            }
            (None, Some(Value::Bool(true))) => Some(Transition::End),
            (None, Some(_)) => {
                self.schema(&format!("{location}/End"), "Expected value of 'End' to be true");
                None
            }
            (None, None) => {
                self.schema(location, "These fields are required: [Next]");
                None
            }
        }
    }

    fn kind(&mut self, kind: &str, object: &Object, language: Language, location: &str) -> Option<Kind> {
        Some(match kind {
            "Pass" => Kind::Pass { result: object.get("Result").cloned() },
            "Task" => Kind::Task(Box::new(self.task(object, language, location)?)),
            "Choice" => self.choice(object, language, location)?,
            "Wait" => Kind::Wait(self.wait(object, language, location)?),
            "Succeed" => Kind::Succeed,
            "Fail" => Kind::Fail {
                error: self.text_field(object, "Error", language, location),
                cause: self.text_field(object, "Cause", language, location),
            },
            "Parallel" => Kind::Parallel { branches: self.branches(object, location)? },
            _ => Kind::Map(Box::new(self.map(object, language, location)?)),
        })
    }

    fn task(&mut self, object: &Object, language: Language, location: &str) -> Option<Task> {
        // Resources that a template of the deployment fills in are objects.
        let resource = match object.get("Resource") {
            Some(Value::Object(_)) => String::new(),
            _ => self.required_text(object, "Resource", location)?,
        };
        let here = format!("{location}/Resource");
        let resource = match Resource::parse(&resource) {
            Ok(resource) => resource,
            Err(reason) => {
                self.schema(&here, reason);
                return None;
            }
        };
        if self.machine_type == MachineType::Express {
            if let Some(pattern) = resource.unsupported_in_express() {
                self.schema(
                    &here,
                    format!("Express state machine does not support '{pattern}' service integration "),
                );
            } else if resource.is_activity() {
                self.schema(&here, "Express state machine does not support Activity ARN");
            }
        }
        let timeout = self.number(object, "TimeoutSeconds", language, location, 1.0);
        let heartbeat = self.number(object, "HeartbeatSeconds", language, location, 1.0);
        if let (Some(super::NumberField::Constant(timeout)), Some(super::NumberField::Constant(heartbeat))) =
            (&timeout, &heartbeat)
            && heartbeat >= timeout
        {
            self.schema(location, "'HeartbeatSeconds' must be less than 'TimeoutSeconds'");
        }
        let credentials = match object.get("Credentials") {
            None => None,
            Some(Value::Object(credentials)) => {
                let here = format!("{location}/Credentials");
                let complete = ["RoleArn", "RoleArn.$"].iter().any(|field| credentials.contains_key(*field));
                let only_arns = resource.is_aws_integration();
                if !complete && only_arns {
                    self.schema(&here, "The field 'RoleArn' is required but was missing");
                }
                Some(self.template(&Value::Object(credentials.clone()), language, &here, "Credentials"))
            }
            Some(Value::String(text)) if language == Language::Jsonata => Some(self.template(
                &Value::String(text.clone()),
                language,
                &format!("{location}/Credentials"),
                "Credentials",
            )),
            Some(_) => {
                self.schema(&format!("{location}/Credentials"), "Expected value of type Object");
                None
            }
        };
        Some(Task { resource, timeout, heartbeat, credentials })
    }

    fn wait(&mut self, object: &Object, language: Language, location: &str) -> Option<Wait> {
        let given: Vec<&str> = ["Seconds", "SecondsPath", "Timestamp", "TimestampPath"]
            .into_iter()
            .filter(|field| object.contains_key(*field))
            .collect();
        if given.len() != 1 {
            self.schema(
                location,
                "Exactly one of these fields is required: [Seconds, SecondsPath, Timestamp, TimestampPath]",
            );
            return None;
        }
        if given[0].starts_with("Seconds") {
            return self.number(object, "Seconds", language, location, 0.0).map(Wait::Seconds);
        }
        let timestamp = self.text_field(object, "Timestamp", language, location)?;
        if let super::TextField::Constant(text) = &timestamp
            && crate::timestamp::Timestamp::parse(text).is_none()
        {
            self.schema(
                &format!("{location}/Timestamp"),
                format!("The Timestamp field cannot be parsed as an ISO-8601 extended offset date-time format string: {text}"),
            );
        }
        Some(Wait::Timestamp(timestamp))
    }

    fn branches(&mut self, object: &Object, location: &str) -> Option<Vec<Machine>> {
        let here = format!("{location}/Branches");
        match object.get("Branches") {
            None => {
                self.schema(location, "These fields are required: [Branches]");
                return None;
            }
            Some(Value::Array(branches)) if branches.is_empty() => {
                self.schema(&here, "Value cannot be empty");
                return None;
            }
            Some(_) => {}
        }
        let mut branches = Vec::new();
        for (here, branch) in self.objects(object, "Branches", location) {
            branches.extend(self.machine(
                &branch,
                &here,
                &["Comment", "StartAt", "States", "QueryLanguage", "ProcessorConfig"],
            ));
        }
        Some(branches)
    }
}
