//! Hostile expressions end with an error, quickly and without taking the process along; and what is evaluated twice
//! gives the same twice.

#![allow(clippy::unwrap_used)]

use minik8s_jsonata::{Bound, Error, Expression, Limits, Outcome, Surroundings};
use proptest::prelude::*;
use serde_json::{Value, json};

fn evaluate(source: &str) -> Result<Outcome, Error> {
    let around = Surroundings { now: 1_700_000_000_000, random: 7, ..Surroundings::default() };
    Expression::parse(source)?.evaluate(Some(&json!({"a": [1, 2, 3], "s": "text"})), &around)
}

#[test]
fn hostile_expressions_end_with_a_limit() {
    for source in [
        "($f := function(){$f()}; $f())",
        "($f := function($n){1 + $f($n + 1)}; $f(0))",
        "($f := function($s, $n){$n = 0 ? $s : $f($s & $s, $n - 1)}; $f('aaaaaaaa', 60))",
        "($f := function($v, $n){$n = 0 ? $string($v) : $f([[$v], [$v]], $n - 1)}; $f(1, 60))",
        "($f := function($v, $n){$n = 0 ? $v : $f({'a': $v, 'b': $v}, $n - 1)}; $f(1, 60))",
        "$pad('x', 1e15)",
        "$pad('x', -1e15, 'ab')",
        "[1..1e7].[[1..1e7]]",
        "[1..1e6].([1..1e6])",
        "($s := $pad('', 1e6, 'a'); $replace($s, 'a', $s))",
        "($s := $pad('', 1e6, 'a'); $replace($s, /a/, $s))",
        "($s := $pad('', 1e6, 'a'); $join([1..1e6].('x'), $s))",
        "$map([1..1e6], function($x){$map([1..1e6], function($y){$x * $y})})",
        "($a := [1..1e5]; $distinct($a))",
        "$reduce([1..1e6], function($a, $b){[$a, $b]})",
        "($f := function($v, $n){$n = 0 ? $v : $f({'a': $v}, $n - 1)}; $f(1, 100000))",
        "$fromMillis(0, $pad('', 1e7, '[Y]'))",
        "$formatNumber(1, $pad('', 1e6, '0'))",
        "$formatInteger(1, $pad('', 1e6, '0'))",
        "$fromMillis(-1e300)",
        "$toMillis('99999999999999999999', '[Y]')",
        "$fromMillis(0, '[Y,999999999-999999999]') & $pad('', 1e12)",
        "$sort([1..1e6], function($a, $b){$a < $b})",
    ] {
        let begun = std::time::Instant::now();
        let ended = evaluate(source);
        assert!(ended.is_err(), "{source}: {:?}", ended.map(|_| "a value"));
        assert!(begun.elapsed().as_secs() < 60, "{source} took {:?}", begun.elapsed());
    }
}

#[test]
fn deep_text_is_refused() {
    for source in [
        "[".repeat(100_000),
        "(".repeat(100_000) + "1",
        "-".repeat(100_000) + "1",
        "a.".repeat(20_000) + "b",
        "$eval($pad('', 1e6, '['))".into(),
        "{'a':".repeat(50_000),
        "1+".repeat(100_000) + "1",
        "1~>".repeat(100_000) + "1",
        "(".repeat(60) + "a" + &" ?? b)".repeat(60),
        "(".repeat(60) + "a" + &" ?: b)".repeat(60),
        "a".to_owned() + &"[1]".repeat(100_000),
        "$f".to_owned() + &"(1)".repeat(100_000),
    ] {
        let _ = evaluate(&source);
    }
    assert_eq!(evaluate(&"[".repeat(100_000)).unwrap_err().code, "S0201");
}

#[test]
fn absurd_numbers_are_survived() {
    for source in [
        "$fromMillis(0, '[H01]:[m01]', '99999999999999999999')",
        "$fromMillis(1e15, '[Yw] [Dwo] [FNn,3-3]')",
        "$formatInteger(1e300, 'w')",
        "$formatInteger(-1e300, 'A')",
        "$formatBase(1e300, 2)",
        "$formatNumber(1e300, '0.0e0')",
        "$formatNumber(1e-300, '#.########e000')",
        "$round(1.5, -1000)",
        "$substring('abc', -1e300, 1e300)",
        "$toMillis('10:99999999999999999999', '[H]:[m]')",
        "$toMillis('1+99999999999999999999', '[Y][Z]')",
        "'abc'[1e300]",
        "[1,2,3][-1e300]",
        "$split('a,b', ',', 1e300)",
        "$pad('a', 5, '')",
    ] {
        let _ = evaluate(source);
    }
}

#[test]
fn time_and_chance_come_from_the_caller() {
    for source in
        ["$now()", "$millis()", "$random()", "$shuffle([1..50])", "$toMillis('10:00', '[H01]:[m01]')"]
    {
        assert_eq!(evaluate(source).unwrap(), evaluate(source).unwrap(), "{source}");
    }
    assert_eq!(evaluate("$now()").unwrap(), Outcome::Value(json!("2023-11-14T22:13:20.000Z")));
}

#[test]
fn bindings_and_host_functions_are_seen() {
    let twice: minik8s_jsonata::HostFunction = |arguments, _| {
        let number = arguments[0].as_ref().and_then(Value::as_f64);
        let number = number.ok_or_else(|| Error::new("D3137", "a number is needed"))?;
        Ok(Some(json!(number * 2.0)))
    };
    let around = Surroundings {
        bindings: vec![("x", Bound::from(&json!({"y": [1, 2]})))],
        functions: &[("twice", twice)],
        ..Surroundings::default()
    };
    let run = |source: &str| Expression::parse(source).unwrap().evaluate(None, &around);
    assert_eq!(run("$sum($x.y)").unwrap(), Outcome::Value(json!(3)));
    assert_eq!(run("$map($x.y, $twice)").unwrap(), Outcome::Value(json!([2, 4])));
    assert!(run("$twice('a')").unwrap_err().message.contains("a number is needed"));
    assert_eq!(run("$nothing").unwrap(), Outcome::Undefined);
    assert_eq!(run("function($x){$x}").unwrap(), Outcome::Function);
}

#[test]
fn limits_are_exact_and_repeatable() {
    let expression = Expression::parse("$sum([1..1000].($ * 2))").unwrap();
    let with = |steps: u64| {
        let limits = Limits { steps, ..Limits::default() };
        expression.evaluate(None, &Surroundings { limits, ..Surroundings::default() })
    };
    let enough = (1..100_000).find(|steps| with(*steps).is_ok()).unwrap();
    assert!(with(enough - 1).is_err() && with(enough).is_ok());
}

#[test]
fn expressions_give_values() {
    for (source, expected) in [
        ("a[$ > 1]", json!([2, 3])),
        ("a[-1]", json!(3)),
        ("a[0][]", json!([1])),
        ("s & '!' ~> $uppercase", json!("TEXT!")),
        ("a.$string()", json!(["1", "2", "3"])),
        ("{'n': $count(a), 'm': $max(a)}", json!({"n": 3, "m": 3})),
        ("a^(>$)", json!([3, 2, 1])),
        ("a{$string($): $ * 2}", json!({"1": 2, "2": 4, "3": 6})),
        ("($f := function($n){$n < 2 ? 1 : $n * $f($n - 1)}; $f(10))", json!(3_628_800)),
        ("($add := function($x, $y){$x + $y}; $inc := $add(1, ?); $inc(2))", json!(3)),
        ("$formatNumber(1234.5, '#,##0.00')", json!("1,234.50")),
        ("$formatInteger(1999, 'I')", json!("MCMXCIX")),
        ("$formatInteger(21, 'w;o')", json!("twenty-first")),
        ("$fromMillis(0, '[FNn], [D1o] [MNn] [Y]')", json!("Thursday, 1st January 1970")),
        ("$toMillis('1970-01-02')", json!(86_400_000)),
        ("$replace('2024-01', /(\\d+)-(\\d+)/, '$2/$1')", json!("01/2024")),
        ("$ ~> |$|{'s': 'new'}, 'a'|", json!({"s": "new"})),
        ("nothing ?? 'default'", json!("default")),
        ("s in ['text']", json!(true)),
    ] {
        assert_eq!(evaluate(source).unwrap(), Outcome::Value(expected), "{source}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No text makes the parser or the evaluator panic.
    #[test]
    fn any_text_is_read_or_refused(source in "[a-z0-9$.\\[\\](){}'\"+*/%&|~><=!?:;,@#^ -]{0,40}", wild in "\\PC{0,30}") {
        let limits = Limits { steps: 20_000, bytes: 1 << 20, depth: 200 };
        for source in [source, wild] {
            if let Ok(expression) = Expression::parse(&source) {
                let around = Surroundings { limits: limits.clone(), ..Surroundings::default() };
                let _ = expression.evaluate(Some(&json!({"a": [1, {"b": "x"}]})), &around);
            }
        }
    }

    /// JSON that goes in comes out.
    #[test]
    fn input_is_kept(number in -1e15f64..1e15, text in "\\PC{0,20}", list in prop::collection::vec(any::<i32>(), 2..6)) {
        let value = json!({"n": number, "t": text, "l": list});
        let found = Expression::parse("$").unwrap().evaluate(Some(&value), &Surroundings::default()).unwrap();
        let Outcome::Value(found) = found else { panic!("{found:?}") };
        prop_assert_eq!(found["n"].as_f64(), value["n"].as_f64());
        prop_assert_eq!(&found["t"], &value["t"]);
        prop_assert_eq!(&found["l"], &value["l"]);
    }
}
