//! What objects say of themselves as metrics: a page, family by family. A kind hands in how its objects are told
//! ([`Resource::state_metrics`](crate::Resource::state_metrics)); this reads no object by itself.

use jiff::Timestamp;
use minik8s_metrics::Text;
use serde_json::Value;

use crate::Quantity;

/// Writes the metrics of all objects of a kind.
pub type StateMetrics = fn(&[Value], &mut Page);

#[derive(Default)]
pub struct Page(Text);

/// Takes the samples of one family of one object: more labels, and the value.
pub type Add<'a> = &'a mut dyn FnMut(&[(&str, &str)], f64);

/// How a kind's objects are named in labels.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub objects: &'a [Value],
    /// `pod`, `deployment`: the label with the name; `namespace` comes before it if the kind has one.
    pub label: &'static str,
    pub namespaced: bool,
}

impl Page {
    /// A family of gauges; `each` adds the samples of one object.
    pub fn gauge(&mut self, of: Subject<'_>, name: &str, help: &str, each: impl Fn(&Value, Add<'_>)) {
        self.family(of, (name, "gauge", help), each);
    }

    pub fn counter(&mut self, of: Subject<'_>, name: &str, help: &str, each: impl Fn(&Value, Add<'_>)) {
        self.family(of, (name, "counter", help), each);
    }

    /// A family with one number per object, found by its path (`/status/replicas`); objects without it have none.
    pub fn number(&mut self, of: Subject<'_>, name: &str, help: &str, path: &str) {
        self.gauge(of, name, help, |object, add| {
            if let Some(value) = object.pointer(path).and_then(number) {
                add(&[], value);
            }
        });
    }

    /// Likewise, but a missing number is a zero: what counts things leaves zeros out.
    pub fn count(&mut self, of: Subject<'_>, name: &str, help: &str, path: &str) {
        self.gauge(of, name, help, |object, add| {
            add(&[], object.pointer(path).and_then(number).unwrap_or(0.0));
        });
    }

    /// When objects were made.
    pub fn created(&mut self, of: Subject<'_>, name: &str) {
        self.number(of, name, "Unix creation timestamp", "/metadata/creationTimestamp");
    }

    pub fn finish(self) -> String {
        self.0.finish()
    }

    fn family(
        &mut self,
        of: Subject<'_>,
        (name, kind, help): (&str, &str, &str),
        each: impl Fn(&Value, Add<'_>),
    ) {
        self.0.metric(name, kind, help);
        for object in of.objects {
            let (namespace, own) =
                (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
            let mut labels = Vec::with_capacity(8);
            if of.namespaced {
                labels.push(("namespace", namespace));
            }
            labels.push((of.label, own));
            let fixed = labels.len();
            each(object, &mut |more, value| {
                let mut all = labels[..fixed].to_vec();
                all.extend(more.iter().copied());
                self.0.sample(name, &all, value, None);
            });
        }
    }
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number, a yes or no, a time or an amount, as a number.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(time) => Some(time.as_second() as f64),
            Err(_) => amount(text),
        },
        _ => None,
    }
}

/// A quantity in its base unit.
pub fn amount(text: &str) -> Option<f64> {
    let quantity: Quantity = text.parse().ok()?;
    let whole = quantity.value() as f64;
    // Thousandths tell nothing more of a terabyte, and do not fit.
    Some(if whole.abs() < 1e12 { quantity.milli() as f64 / 1000.0 } else { whole })
}

pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub fn map(value: &Value) -> impl Iterator<Item = (&str, &str)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), text(value)))
}

/// One sample per possible state: 1 for the one that is.
pub fn one_of(label: &str, is: &str, all: &[&str], more: &[(&str, &str)], add: Add<'_>) {
    for state in all {
        let mut labels = more.to_vec();
        labels.push((label, state));
        add(&labels, f64::from(u8::from(*state == is)));
    }
}

/// Conditions as `condition` and `status` (true, false, unknown).
pub fn conditions(object: &Value, add: Add<'_>) {
    for condition in list(&object["status"]["conditions"]) {
        let is = text(&condition["status"]).to_lowercase();
        let more = [("condition", text(&condition["type"]))];
        one_of("status", &is, &["true", "false", "unknown"], &more, add);
    }
}

/// kube-state-metrics writes `nvidia.com/gpu` as `nvidia_com_gpu`.
pub fn resource_name(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_")
}

/// The unit that an amount of a resource is in.
pub fn unit(resource: &str) -> &'static str {
    match resource {
        "cpu" => "core",
        name if name.starts_with("hugepages") || name.starts_with("attachable") => "byte",
        "memory" | "storage" | "ephemeral-storage" => "byte",
        _ => "integer",
    }
}
