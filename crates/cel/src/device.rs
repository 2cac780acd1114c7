//! Selectors of devices (`resource.k8s.io`): expressions about one device of a ResourceSlice.
//!
//! A device is the variable `device` with `driver`, `attributes["DOMAIN"].NAME`, `capacity["DOMAIN"].NAME` and
//! `allowMultipleAllocations`. A domain that the device says nothing about has no attributes; to read one of them is an
//! error, as upstream. Which devices are looked at, and what becomes of the answer, is the scheduler's.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use serde_json::Value as Json;

use crate::cost::Budget;
use crate::declaration::Declaration;
use crate::environment::Environment;
use crate::library::quantity::Quantity;
use crate::library::semver::Semver;
use crate::policy::Expected;
use crate::program::{Bindings, Program};
use crate::types::{ObjectField, ObjectType, Type};
use crate::value::{Key, MadeMap, Map, Value};

/// Expressions may not be longer, in bytes.
pub const LONGEST_EXPRESSION: usize = 10 * 1024;

/// One device as expressions see it; made once, looked at often.
#[derive(Debug, Clone)]
pub struct DeviceFacts(Value<'static>);

impl DeviceFacts {
    /// From a device of a ResourceSlice, as JSON. Names without a domain are in the driver's.
    pub fn new(driver: &str, device: &Json) -> Self {
        let attributes = domains(driver, &device["attributes"], attribute);
        let capacity = domains(driver, &device["capacity"], |capacity| {
            let text = match &capacity["value"] {
                Json::String(text) => text.clone(),
                other => other.to_string(),
            };
            Quantity::parse(&text).map(Value::Quantity)
        });
        let shared = device["allowMultipleAllocations"].as_bool().unwrap_or(false);
        DeviceFacts(map(
            [
                ("driver", Value::from(driver.to_owned())),
                ("attributes", attributes),
                ("capacity", capacity),
                ("allowMultipleAllocations", Value::Bool(shared)),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
            None,
        ))
    }
}

/// An expression that chooses devices.
#[derive(Debug)]
pub struct DeviceSelector(Program);

impl DeviceSelector {
    /// The selector, or upstream's words for why there is none.
    pub fn compile(expression: &str) -> Result<Self, String> {
        if expression.len() > LONGEST_EXPRESSION {
            return Err(format!("must not be longer than {LONGEST_EXPRESSION} bytes"));
        }
        Expected::Bool.compile(&ENVIRONMENT, expression).map(DeviceSelector)
    }

    pub fn matches(&self, device: &DeviceFacts) -> Result<bool, String> {
        let bindings = Bindings::new().with("device", device.0.clone());
        match self.0.evaluate(&bindings, &mut Budget::default()) {
            Ok(Value::Bool(answer)) => Ok(answer),
            Ok(other) => Err(format!("it evaluates to {}, not to true or false", other.type_name())),
            Err(error) => Err(error.to_string()),
        }
    }
}

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let of_domain = |value: Type| Type::map(Type::String, Type::map(Type::String, value));
    let fields = [
        ("driver", Type::String),
        ("attributes", of_domain(Type::Dyn)),
        ("capacity", of_domain(Type::Opaque("kubernetes.Quantity"))),
        ("allowMultipleAllocations", Type::Bool),
    ];
    let fields: HashMap<String, ObjectField> = fields
        .into_iter()
        .map(|(name, ty)| {
            let declaration = Declaration::of_type(ty);
            (name.to_owned(), ObjectField { name: name.to_owned(), declaration })
        })
        .collect();
    let device = ObjectType { name: "kubernetes.DRADevice".to_owned(), fields };
    Environment::new().with_type("device", Type::Object(Arc::new(device)))
});

/// `DOMAIN/NAME` by domain and name; a domain that is not there is empty.
fn domains(driver: &str, named: &Json, value: impl Fn(&Json) -> Option<Value<'static>>) -> Value<'static> {
    let mut domains: IndexMap<&str, Vec<(String, Value<'static>)>> = IndexMap::new();
    for (name, of) in named.as_object().into_iter().flatten() {
        let (domain, name) = name.split_once('/').unwrap_or((driver, name));
        if let Some(value) = value(of) {
            domains.entry(domain).or_default().push((name.to_owned(), value));
        }
    }
    let of_domains = domains.into_iter().map(|(domain, values)| (domain.to_owned(), map(values, None)));
    map(of_domains, Some(Box::new(map([], None))))
}

fn map(
    entries: impl IntoIterator<Item = (String, Value<'static>)>,
    otherwise: Option<Box<Value<'static>>>,
) -> Value<'static> {
    let entries = entries
        .into_iter()
        .map(|(name, value)| (Key::String(name.as_str().into()), (Value::from(name), value)))
        .collect();
    Value::Map(Map::Made(Arc::new(MadeMap { name: None, entries, otherwise })))
}

/// Exactly one of its fields is set.
fn attribute(json: &Json) -> Option<Value<'static>> {
    let version = |text: &str| Semver::parse(text).ok().map(|version| Value::Semver(Arc::new(version)));
    let (kind, value) = json.as_object()?.iter().next()?;
    let list = |of: &dyn Fn(&Json) -> Option<Value<'static>>| {
        value.as_array().map(|items| Value::list(items.iter().filter_map(of).collect()))
    };
    match kind.as_str() {
        "bool" => value.as_bool().map(Value::Bool),
        "int" => value.as_i64().map(Value::Int),
        "string" => value.as_str().map(|text| Value::from(text.to_owned())),
        "version" => version(value.as_str()?),
        "bools" => list(&|item| item.as_bool().map(Value::Bool)),
        "ints" => list(&|item| item.as_i64().map(Value::Int)),
        "strings" => list(&|item| item.as_str().map(|text| Value::from(text.to_owned()))),
        "versions" => list(&|item| version(item.as_str()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(expression: &str, expected: Result<bool, &str>) {
        let device = json!({
            "name": "gpu-0",
            "attributes": {"model": {"string": "v100"}, "numa": {"int": 1}, "ecc": {"bool": true},
                "driverVersion": {"version": "12.4.1"}, "other.example/slot": {"int": 3}},
            "capacity": {"memory": {"value": "32Gi"}, "cores": {"value": 5120}},
        });
        let facts = DeviceFacts::new("gpu.example", &device);
        let found = DeviceSelector::compile(expression).and_then(|selector| selector.matches(&facts));
        match (&found, expected) {
            (Ok(found), Ok(expected)) if *found == expected => {}
            (Err(found), Err(expected)) if found.contains(expected) => {}
            _ => panic!("{expression}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn device_is_chosen_by_what_it_says_of_itself() {
        check("device.driver == 'gpu.example'", Ok(true));
        check("device.attributes['gpu.example'].model == 'v100'", Ok(true));
        check("device.attributes['other.example'].slot > 3", Ok(false));
        check("device.attributes['gpu.example'].ecc && !device.allowMultipleAllocations", Ok(true));
        check("device.capacity['gpu.example'].memory.compareTo(quantity('16Gi')) >= 0", Ok(true));
        check("device.capacity['gpu.example'].cores.isGreaterThan(quantity('6k'))", Ok(false));
        check("device.attributes['gpu.example'].driverVersion.isGreaterThan(semver('12.0.0'))", Ok(true));
    }

    #[test]
    fn domain_that_is_not_there_is_empty() {
        check("'model' in device.attributes['nobody.example']", Ok(false));
        check("'nobody.example' in device.attributes", Ok(false));
        check("'gpu.example' in device.attributes", Ok(true));
        check("device.attributes['nobody.example'].model == 'v100'", Err("no such key: model"));
    }

    #[test]
    fn expression_that_cannot_be_one_is_told() {
        check("device.colour == 'red'", Err("undefined field 'colour'"));
        check("device.driver", Err("must evaluate to bool but got string"));
        check("object.spec", Err("undeclared reference to 'object'"));
        check(&"true && ".repeat(2000), Err("must not be longer than"));
        check("device.attributes['gpu.example'].numa == 'one' || true", Ok(true));
    }
}
