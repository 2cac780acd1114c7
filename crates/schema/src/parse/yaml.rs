//! YAML that people write, with YAML 1.1's booleans and octal numbers (`defaultMode: 0644`), as upstream
//! reads it.
//!
//! It never includes other files, and never lets a small text become a large value: aliases are counted, and
//! what they expand to is bounded in bytes.

use serde_json::Value;
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::{DuplicateField, Key, Notes};

/// Aliases may stand for this many nodes in all.
const MAX_ALIASED: usize = 10_000;

/// Text may hold this much with its aliases expanded, and the parser may keep as much for them.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Why a text is not YAML, with the place.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(Box<serde_saphyr::Error>);

/// The value and every key that stands twice in its mapping, with its line.
pub fn parse_yaml(text: &str) -> Result<(Value, Vec<DuplicateField>), YamlError> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        // A few hundred bytes of aliases to aliases would else keep a thread busy for long.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_ALIASED },
        budget: serde_saphyr::budget! {
            max_total_scalar_bytes: MAX_BYTES,
            max_recorded_anchor_bytes: MAX_BYTES,
        },
    };
    let notes = Notes::default();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |input| {
        notes.read::<Spanned<String>, _>(input)
    });
    let value = read.map_err(|error| YamlError(Box::new(error)))?;
    Ok((value, notes.duplicates.into_inner()))
}

impl Key for Spanned<String> {
    fn placed(self) -> (String, Option<u64>) {
        (self.value, Some(self.referenced.line()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, value: &str, duplicates: &[&str]) {
        let (got, found) = parse_yaml(text).unwrap();
        assert_eq!(got, value.parse::<Value>().unwrap(), "{text}");
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, duplicates, "{text}");
    }

    #[test]
    fn yaml_duplicate_key_is_named_with_its_line() {
        check("a: 1\nb: [x, 1.5, ~]\n", r#"{"a":1,"b":["x",1.5,null]}"#, &[]);
        check(
            "\ns:\n  foo: 1\n  foo: 2\n",
            r#"{"s":{"foo":2}}"#,
            &[r#"line 4: key "foo" already set in map"#],
        );
        check("{\"a\": 1,\n \"a\": 2}", r#"{"a":2}"#, &[r#"line 2: key "a" already set in map"#]);
        check(
            "l:\n- x: 1\n- y: 1\n  y: {z: 1}\na: 1\na: 2\n",
            r#"{"l":[{"x":1},{"y":{"z":1}}],"a":2}"#,
            &[r#"line 4: key "y" already set in map"#, r#"line 6: key "a" already set in map"#],
        );
    }

    #[test]
    fn yaml_merge_key_is_no_duplicate() {
        check(
            "base: &b {x: 1, y: 2}\nover:\n  <<: *b\n  x: 3\n",
            r#"{"base":{"x":1,"y":2},"over":{"x":3,"y":2}}"#,
            &[],
        );
    }

    #[test]
    fn yaml_scalars_are_read_as_upstream_does() {
        check("a: 0644\nb: yes\nc: 'y'\nd: 1e3\n", r#"{"a":420,"b":true,"c":"y","d":1000.0}"#, &[]);
    }

    #[test]
    fn yaml_aliases_are_bounded_in_bytes() {
        let anchors: String = (0..200).map(|i| format!("- &s{i} x\n")).collect();
        let text = |size: usize, aliases: usize| {
            format!("anchors:\n{anchors}big: &big {}\nall:\n{}", "x".repeat(size), "- *big\n".repeat(aliases))
        };
        assert!(parse_yaml(&text(64 * 1024, 100)).is_ok());
        let refused = parse_yaml(&text(64 * 1024, 200)).unwrap_err().to_string();
        assert!(refused.contains("ScalarBytes"), "{refused}");
        let keys =
            format!("k: &k {{{}: 1}}\nanchors:\n{anchors}all:\n{}", "x".repeat(900), "- *k\n".repeat(1500));
        assert!(parse_yaml(&keys).is_ok());
        let merged = format!(
            "k: &k {{{}}}\nanchors:\n{anchors}all:\n{}",
            (0..20).map(|i| format!("k{i}: {}, ", "x".repeat(4000))).collect::<String>(),
            "- <<: *k\n".repeat(200)
        );
        assert!(parse_yaml(&merged).is_err());
    }

    #[test]
    fn yaml_garbage_is_an_error() {
        for text in ["{", "a: *b", "&a [*a]", "a: .nan", "<<: 5", "a: 'x", "? {a: 1}\n: 2"] {
            assert!(parse_yaml(text).is_err(), "{text}");
        }
    }
}
