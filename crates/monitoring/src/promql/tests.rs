//! What promtool takes and refuses.

use super::{ValueType, check};

#[test]
fn expressions_of_rules_and_dashboards_are_expressions() {
    for text in [
        "up",
        "up == 0",
        "sum by (node) (rate(node_cpu_seconds_total{mode!=\"idle\"}[5m]))",
        "sum(rate(x_total[5m])) by (a, b) / ignoring (c) group_left (d) y",
        "1 - avg without (cpu) (irate(node_cpu_seconds_total{mode=\"idle\"}[1m]))",
        "histogram_quantile(0.99, sum by (le) (rate(h_bucket[5m])))",
        "predict_linear(node_filesystem_avail_bytes[6h], 24 * 3600) < 0",
        "max_over_time(rate(x[1m])[30m:1m]) > bool 3",
        "label_replace(up, \"a\", \"$1\", \"b\", \"(.*)\")",
        "label_join(up, \"a\", \",\", \"b\", \"c\", \"d\")",
        "absent(up{job='x'}) or vector(0)",
        "{__name__=~\"node_.+\"}",
        "topk(5, x) # the largest",
        "-x ^ 2",
        "count_values(\"version\", build_info)",
        "job:requests:rate5m offset 1h",
        "x[5m] offset -1d",
        "x @ 1609746000",
        "rate(x[5m] @ end())",
        "time() - 1e-9 * 0x1F",
        "inf > bool NaN",
        "x{a=~\"b|c\",}",
        "minute()",
        "round(x, 0.1)",
        "x unless on (a) y and z",
        "(x)\n+ # comment\ny",
        "sum_over_time(vector(1)[1h:])",
        "quantile(0.5, x)",
    ] {
        assert!(check(text).is_ok(), "{text}: {:?}", check(text));
    }
    assert_eq!(check("x[5m]"), Ok(ValueType::Matrix));
    assert_eq!(check("\"text\""), Ok(ValueType::String));
    assert_eq!(check("1 + 2"), Ok(ValueType::Scalar));
}

#[test]
fn problems_are_told_as_promtool_tells_them() {
    for (text, expected) in [
        ("", "1:1: parse error: no expression found in input"),
        ("sum(", "1:5: parse error: unexpected end of input"),
        ("sum(x", "1:6: parse error: unclosed left parenthesis"),
        (
            "rate(x)",
            "1:6: parse error: expected type range vector in call to function \"rate\", got instant vector",
        ),
        ("rates(x[5m])", "1:1: parse error: unknown function with name \"rates\""),
        ("rate(x[5m], 1)", "1:1: parse error: expected 1 argument(s) in call to \"rate\", got 2"),
        ("x +", "1:4: parse error: unexpected end of input"),
        ("x y", "1:3: parse error: unexpected identifier \"y\""),
        ("x\n== == 1", "2:4: parse error: unexpected \"==\""),
        ("1 == 1", "1:1: parse error: comparisons between scalars must use BOOL modifier"),
        ("x + bool y", "1:5: parse error: bool modifier can only be used on comparison operators"),
        (
            "x[5m] + 1",
            "1:1: parse error: binary expression must contain only scalar and instant vector types",
        ),
        ("x and 1", "1:1: parse error: set operator \"and\" not allowed in binary scalar expression"),
        ("(x)[5m]", "1:1: parse error: ranges only allowed for vector selectors"),
        ("x[five]", "1:3: parse error: unexpected identifier \"five\" in subquery or range"),
        ("x{}", ""),
        ("{}", "1:1: parse error: vector selector must contain at least one non-empty matcher"),
        ("{a=\"\"}", "1:1: parse error: vector selector must contain at least one non-empty matcher"),
        ("x{a=b}", "1:5: parse error: unexpected identifier \"b\" in label matching"),
        ("x{a=~\"(\"}", "1:6: parse error: error parsing regexp"),
        ("x{__name__=\"y\"}", "1:3: parse error: metric name must not be set twice"),
        ("'open", "1:1: parse error: unterminated quoted string"),
        ("x $ y", "1:3: parse error: unexpected character: '$'"),
        (
            "topk(x)",
            "1:1: parse error: wrong number of arguments for aggregate expression provided, expected 2, got 1",
        ),
        ("(x) offset 5m", "1:1: parse error: offset modifier must be preceded by"),
        ("5parsecs", "1:1: parse error: bad number or duration syntax"),
    ] {
        match (check(text), expected) {
            (Ok(_), "") => {}
            (Err(problem), expected) => {
                assert!(
                    problem.to_string().starts_with(expected) && !expected.is_empty(),
                    "{text}: {problem}"
                );
            }
            (Ok(_), expected) => panic!("{text} is taken; {expected}"),
        }
    }
    let deep = format!("{}x{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(check(&deep).unwrap_err().message.contains("nests deeper"));
    assert!(check(&"x ^ ".repeat(100_000)).is_err());
    assert!(check(&"- ".repeat(100_000)).is_err());
}

#[test]
fn every_rule_of_ours_is_an_expression() {
    for file in [crate::rules::ALERTS, crate::rules::RECORDING] {
        let expressions = file.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
        let mut count = 0;
        for text in expressions.filter(|text| !text.starts_with(['|', '>'])) {
            let text = match text.starts_with('"') {
                true => serde_json::from_str(text).unwrap(),
                false => text.trim_matches('\'').replace("''", "'"),
            };
            assert!(check(&text).is_ok(), "{text}: {:?}", check(&text));
            count += 1;
        }
        assert!(count > 5, "{count}");
    }
}
