//! What the tests of kinds have in common: finding a kind and comparing what its strategy says.

use jiff::Timestamp;
use serde_json::Value;

use crate::{FieldErrors, Resource};

/// A kind by plural, or by plural and group: `events.events.k8s.io`, or with its version:
/// `v1.horizontalpodautoscalers.autoscaling`.
#[track_caller]
pub(crate) fn find(name: &str) -> Resource {
    let found = super::all().into_iter().find(|resource| {
        let qualified = resource.qualified();
        name == qualified || name == resource.plural || name == format!("{}.{qualified}", resource.version)
    });
    found.unwrap_or_else(|| panic!("no kind {name}"))
}

/// The object with its defaults.
#[track_caller]
pub(crate) fn defaulted(name: &str, mut object: Value) -> Value {
    find(name).strategy.default(&mut object);
    object
}

/// Defaulting `object` changes it to `expected`.
#[track_caller]
pub(crate) fn defaults(name: &str, object: Value, expected: Value) {
    assert_eq!(defaulted(name, object), expected);
}

/// Validating the defaulted object gives errors that start with these texts.
#[track_caller]
pub(crate) fn errors(name: &str, object: Value, expected: &[&str]) {
    let mut errors = FieldErrors::default();
    find(name).strategy.validate(&defaulted(name, object), &mut errors);
    compare(errors, expected);
}

/// Changing `old` to `object` gives errors that start with these texts.
#[track_caller]
pub(crate) fn update_errors(name: &str, object: Value, old: Value, expected: &[&str]) {
    let strategy = find(name).strategy;
    let (mut object, old) = (defaulted(name, object), defaulted(name, old));
    strategy.prepare_update(&mut object, &old);
    let mut errors = FieldErrors::default();
    strategy.validate_update(&object, &old, &mut errors);
    compare(errors, expected);
}

/// The cells of an object, as text, at noon of the first day of 2026.
#[track_caller]
pub(crate) fn row(name: &str, object: Value, expected: &[&str]) {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let cells = find(name).strategy.row(&object, now);
    let cells: Vec<String> =
        cells.iter().map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)).collect();
    assert_eq!(cells, expected);
}

#[track_caller]
fn compare(errors: FieldErrors, expected: &[&str]) {
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), expected.len(), "{shown:#?}\nshould be\n{expected:#?}");
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.starts_with(expected), "{shown}\nshould start with\n{expected}");
    }
}
