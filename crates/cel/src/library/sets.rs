//! Lists as sets: `sets.contains([1, 2], [2])`

use super::{Evaluated, Row, mismatch};
use crate::equality::equal;
use crate::value::{List, Value};

pub const TABLE: &[Row] = &[
    ("list_sets_contains_list", "sets.contains(list(A), list(A)) -> bool", |_, args| of(args, contains)),
    ("list_sets_equivalent_list", "sets.equivalent(list(A), list(A)) -> bool", |_, args| {
        of(args, |one, two| contains(one, two) && contains(two, one))
    }),
    ("list_sets_intersects_list", "sets.intersects(list(A), list(A)) -> bool", |_, args| {
        of(args, |one, two| one.iter().any(|value| has(two, &value)))
    }),
];

fn of<'a>(args: &[Value<'a>], holds: fn(&List, &List) -> bool) -> Evaluated<'a> {
    match args {
        [Value::List(one), Value::List(two)] => Ok(Value::Bool(holds(one, two))),
        _ => mismatch(),
    }
}

fn contains(one: &List, two: &List) -> bool {
    two.iter().all(|value| has(one, &value))
}

fn has(list: &List, wanted: &Value) -> bool {
    list.iter().any(|value| equal(&value, wanted))
}
