//! `--sort-by`: numbers as numbers, quantities as quantities, and texts with numbers in them as people read
//! them.

use std::cmp::Ordering;

use minik8s_meta::Quantity;
use serde_json::Value;

use super::jsonpath::Path;
use crate::error::{Error, Result};

/// Sorts by what the path finds in each object. Objects without it stand first.
pub fn sort_by<T>(items: &mut [T], path: &str, object: impl Fn(&T) -> &Value) -> Result<()> {
    let path = Path::parse_relaxed(path)
        .map_err(|error| Error::plain(format!("error parsing --sort-by: {error}")))?;
    let mut failed = None;
    items.sort_by(|a, b| {
        let mut first = |item: &T| match path.find(object(item)) {
            Ok(found) => found.first().map(|value| (*value).clone()),
            Err(error) => {
                failed.get_or_insert(error);
                None
            }
        };
        compare(first(a).as_ref(), first(b).as_ref())
    });
    failed.map_or(Ok(()), |error| Err(Error::Plain(error)))
}

fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(Value::Number(a)), Some(Value::Number(b))) => {
            a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal)
        }
        (Some(Value::String(a)), Some(Value::String(b))) => match (Quantity::parse(a), Quantity::parse(b)) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            _ => natural(a, b),
        },
        (Some(a), Some(b)) => a.to_string().cmp(&b.to_string()),
    }
}

/// `web-2` before `web-10`.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let (head_a, rest_a) = chunk(a);
        let (head_b, rest_b) = chunk(b);
        let order = match (number(head_a), number(head_b)) {
            (Some(x), Some(y)) => x.cmp(&y).then(head_a.len().cmp(&head_b.len())),
            _ => head_a.cmp(head_b),
        };
        if order.is_ne() || (rest_a.is_empty() && rest_b.is_empty()) {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

/// The digits, or the other signs, that a text begins with.
fn chunk(text: &str) -> (&str, &str) {
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    text.split_at(text.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(text.len()))
}

fn number(text: &str) -> Option<u128> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn orders() {
        let check = |values: &[Value], expected: &[usize]| {
            let mut items: Vec<(usize, Value)> =
                values.iter().enumerate().map(|(i, value)| (i, json!({"a": value}))).collect();
            sort_by(&mut items, "{.a}", |(_, value)| value).unwrap();
            assert_eq!(items.iter().map(|(i, _)| *i).collect::<Vec<_>>(), expected, "{values:?}");
        };
        check(&[json!(10), json!(9)], &[1, 0]);
        check(&[json!("1Gi"), json!("900Mi")], &[1, 0]);
        check(&[json!("web-10"), json!("web-9"), json!("web")], &[2, 1, 0]);
        check(&[json!("2026-01-02T00:00:00Z"), json!("2026-01-01T00:00:00Z")], &[1, 0]);
    }
}
