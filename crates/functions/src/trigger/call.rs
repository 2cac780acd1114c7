//! What an event becomes: a call of a function, or a run of a workflow, named after the trigger and the event. The same
//! event gives the same name, so it fires once however often it is told. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_jsonata::{Bound, Expression, Outcome, Surroundings};
use minik8s_meta::destination::Destination;
use minik8s_meta::invocation::{Invocation, InvocationSpec};
use minik8s_meta::trigger::{Trigger, TriggerCloudEvents};
use minik8s_runtime::{Kind, owner_reference};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::event::Event;

/// What is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub kind: Kind,
    pub object: Value,
}

/// The call that an event makes, or why its input cannot be computed.
pub fn call(trigger: &Trigger, event: &Event) -> Result<Call, String> {
    let name = name(trigger, event);
    let input = input(trigger, event)?;
    if let Some(workflow) = &trigger.spec.target.workflow {
        return Ok(run(trigger, name, workflow, input));
    }
    let payload = match input {
        // Text that the user wrote is sent as it is.
        Value::String(text) if trigger.spec.input.is_some() => text,
        value => value.to_string(),
    };
    let call = invocation(trigger, name, payload);
    Ok(Call {
        kind: Kind::of::<Invocation>(),
        object: serde_json::to_value(call).map_err(|e| e.to_string())?,
    })
}

/// A call of the trigger's function.
pub fn invocation(trigger: &Trigger, name: String, payload: String) -> Invocation {
    let retry = trigger.spec.retry.clone().unwrap_or_default();
    Invocation {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: trigger.metadata.namespace.clone(),
            owner_references: Some(vec![owner_reference(trigger)]),
            ..ObjectMeta::default()
        },
        spec: InvocationSpec {
            function: trigger.spec.target.function.clone().unwrap_or_default(),
            payload: Some(payload),
            attempts: retry.attempts,
            backoff_seconds: retry.backoff_seconds,
            max_age_seconds: retry.max_age_seconds,
            on_failure: trigger.spec.dead_letter.clone().map(Destination::Function),
            ..InvocationSpec::default()
        },
        ..Invocation::default()
    }
}

/// Runs outlive the trigger, as those that a user started do.
fn run(trigger: &Trigger, name: String, workflow: &str, input: Value) -> Call {
    let object = json!({
        "apiVersion": "minik8s.io/v1",
        "kind": "WorkflowRun",
        "metadata": {
            "name": name,
            "namespace": trigger.metadata.namespace,
            "labels": {"minik8s.io/trigger": trigger.metadata.uid},
        },
        "spec": {"workflow": workflow, "input": input},
    });
    Call { kind: workflow_run(), object }
}

/// The kind of runs, which is another feature's.
pub fn workflow_run() -> Kind {
    Kind {
        group: "minik8s.io".into(),
        version: "v1".into(),
        kind: "WorkflowRun".into(),
        plural: "workflowruns".into(),
        namespaced: true,
    }
}

fn name(trigger: &Trigger, event: &Event) -> String {
    let uid = trigger.metadata.uid.as_deref().unwrap_or_default();
    let digest = Sha256::digest(format!("{uid}\n{}", event.identity()));
    let hex: String = digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{hex}", trigger.metadata.name.as_deref().unwrap_or_default())
}

/// The event, or what the trigger's template makes of it.
pub fn input(trigger: &Trigger, event: &Event) -> Result<Value, String> {
    let Some(template) = &trigger.spec.input else { return Ok(event.0.clone()) };
    let bound = Bound::from(&event.0);
    // The event's own time, so that the same event gives the same input whenever it is told.
    let time = event.attribute("time").parse::<jiff::Timestamp>().map_or(0, |time| time.as_millisecond());
    fill(template, &|source| {
        let around =
            Surroundings { bindings: vec![("event", bound.clone())], now: time, ..Surroundings::default() };
        let expression = Expression::parse(source).map_err(|error| format!("{{% {source} %}}: {error}"))?;
        match expression.evaluate(Some(&event.0), &around) {
            Ok(Outcome::Value(value)) => Ok(value),
            Ok(Outcome::Undefined) => Ok(Value::Null),
            Ok(Outcome::Function) => Err(format!("{{% {source} %}} is a function")),
            Err(error) => Err(format!("{{% {source} %}}: {error}")),
        }
    })
}

/// Whether all expressions of a template can be read.
pub fn check_template(template: &Value) -> Result<(), String> {
    let parse = |source: &str| {
        Expression::parse(source).map(|_| Value::Null).map_err(|error| format!("{{% {source} %}}: {error}"))
    };
    fill(template, &parse).map(drop)
}

fn fill(template: &Value, evaluate: &dyn Fn(&str) -> Result<Value, String>) -> Result<Value, String> {
    Ok(match template {
        Value::String(text) => match expression(text) {
            Some(source) => evaluate(source)?,
            None => template.clone(),
        },
        Value::Array(items) => items.iter().map(|item| fill(item, evaluate)).collect::<Result<_, _>>()?,
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| Ok((key.clone(), fill(value, evaluate)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        _ => template.clone(),
    })
}

/// What stands between `{%` and `%}`.
fn expression(text: &str) -> Option<&str> {
    Some(text.trim().strip_prefix("{%")?.strip_suffix("%}")?.trim())
}

/// Whether a trigger wants an event of its namespace.
pub fn wants(source: &TriggerCloudEvents, event: &Event) -> bool {
    let of_type =
        source.types.is_empty() || source.types.iter().any(|one| fits(one, event.attribute("type")));
    of_type
        && source.filter.iter().all(|(name, pattern)| {
            event.0.get(name).filter(|value| !value.is_null()).is_some_and(|value| match value {
                Value::String(text) => fits(pattern, text),
                other => fits(pattern, &other.to_string()),
            })
        })
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => text == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(spec: Value) -> Trigger {
        let metadata = json!({"name": "t", "namespace": "ns", "uid": "u"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn event(id: &str) -> Event {
        Event(json!({"specversion": "1.0", "id": id, "source": "/s", "type": "com.shop.order.new", "n": 5,
            "time": "2026-11-17T10:00:00Z", "data": {"total": 12}}))
    }

    #[test]
    fn event_is_called_once_under_one_name() {
        let one = trigger(json!({"source": {}, "target": {"function": "f"}, "deadLetter": "alarm",
            "retry": {"attempts": 5, "backoffSeconds": 2, "maxAgeSeconds": 60}}));
        let made = call(&one, &event("1")).unwrap();
        assert_eq!(made, call(&one, &event("1")).unwrap());
        assert_ne!(
            made.object["metadata"]["name"],
            call(&one, &event("2")).unwrap().object["metadata"]["name"]
        );
        let spec = &made.object["spec"];
        assert_eq!(
            (&spec["function"], &spec["attempts"], &spec["onFailure"]),
            (&json!("f"), &json!(5), &json!("alarm"))
        );
        assert_eq!((&spec["backoffSeconds"], &spec["maxAgeSeconds"]), (&json!(2), &json!(60)));
        let payload: Value = serde_json::from_str(spec["payload"].as_str().unwrap()).unwrap();
        assert_eq!(payload, event("1").0);
        let mut other = one.clone();
        other.metadata.uid = Some("v".to_owned());
        assert_ne!(
            call(&other, &event("1")).unwrap().object["metadata"]["name"],
            made.object["metadata"]["name"]
        );
    }

    #[test]
    fn workflow_gets_the_input_as_a_value() {
        let run = trigger(
            json!({"source": {}, "target": {"workflow": "w"}, "input": {"sum": "{% $event.data.total * 2 %}", "at": "{% $millis() %}"}}),
        );
        let made = call(&run, &event("1")).unwrap();
        assert_eq!(&*made.kind.plural, "workflowruns");
        assert_eq!(
            made.object["spec"],
            json!({"workflow": "w", "input": {"sum": 24, "at": 1_794_909_600_000_i64}})
        );
    }

    #[test]
    fn templates_are_text_or_json_with_expressions() {
        let check = |template: Value, expected: Value| {
            let trigger = trigger(json!({"source": {}, "target": {"function": "f"}, "input": template}));
            assert_eq!(call(&trigger, &event("1")).unwrap().object["spec"]["payload"], expected);
        };
        check(json!("{\"day\": 1}"), json!("{\"day\": 1}"));
        check(json!("{% $event.data %}"), json!("{\"total\":12}"));
        check(json!("{% data.total %}"), json!("12"));
        check(json!([1, "{% $event.nothing %}"]), json!("[1,null]"));
        let broken =
            trigger(json!({"source": {}, "target": {"function": "f"}, "input": "{% $error('no') %}"}));
        assert!(call(&broken, &event("1")).unwrap_err().contains("$error('no')"));
        assert!(check_template(&json!({"a": ["{% ( %}"]})).is_err());
        assert!(check_template(&json!({"a": ["{% $event %}", "text"]})).is_ok());
    }

    #[test]
    fn cloud_events_are_chosen_by_type_and_attributes() {
        let check = |source: Value, expected: bool| {
            let source: TriggerCloudEvents = serde_json::from_value(source).unwrap();
            assert_eq!(wants(&source, &event("1")), expected, "{source:?}");
        };
        check(json!({}), true);
        check(json!({"types": ["com.shop.order.*"]}), true);
        check(json!({"types": ["com.shop.order"]}), false);
        check(json!({"types": ["x", "com.shop.order.new"], "filter": {"source": "/*", "n": "5"}}), true);
        check(json!({"filter": {"source": "/t"}}), false);
        check(json!({"filter": {"subject": "*"}}), false);
    }
}
