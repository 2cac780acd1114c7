use crate::support::{all_fail, all_true, run};

#[test]
fn literals_and_operators() {
    all_true(&[
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "7 / 2 == 3 && -7 / 2 == -3 && 7 % 4 == 3 && -7 % 4 == -3",
        "7u / 2u == 3u",
        "0x10 == 16 && -0x10 == -16 && 0x10u == 16u",
        "1.5e3 == 1500.0 && .5 == 0.5 && 1e-2 == 0.01",
        "'a' + \"b\" == 'ab'",
        r#"r'\d' == "\\d""#,
        "'''a\nb''' == 'a\\nb'",
        r"b'\xff' == b'\377'",
        "bytes('é') == b'\\xc3\\xa9'",
        "[1, 2] + [3] == [1, 2, 3]",
        "{'a': 1}['a'] == 1 && {'a': 1}.a == 1",
        "{1: 'x'}[1] == 'x' && {true: 1}[true] == 1",
        "!false && !!true && - -1 == 1 && --1 == 1",
        "1 < 2 && 2 <= 2 && 3 > 2 && 'a' < 'b' && b'a' < b'b' && false < true",
        "1 < 1.5 && 1u < 2 && 2.0 >= 2u && 9223372036854775807 < 9223372036854775808u",
        "-9223372036854775808 < 0",
        "2 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1} && !('b' in {'a': 1})",
        "true ? true : false",
        "false ? false : true ? true : false",
        "null == null",
        "size('héllo') == 5 && 'héllo'.size() == 5 && size([1, 2]) == 2 && size({'a': 1}) == 1 && size(b'abc') == 3",
        "// a comment\ntrue // and another",
        "{'a-b': 1}.`a-b` == 1",
    ]);
}

#[test]
fn logic_absorbs_errors_of_the_side_that_does_not_decide() {
    all_true(&[
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(false && 1 / 0 == 1)",
        "!(1 / 0 == 1 && false)",
        "[1, 0].exists(x, 1 / x == 1)",
        "[0, 1].exists(x, 1 / x == 1)",
        "![0, 1].all(x, 1 / x == 2)",
    ]);
    all_fail(&[
        ("1 / 0 == 1 || false", "division by zero"),
        ("1 / 0 == 1 && true", "division by zero"),
        ("[0, 1].all(x, 1 / x == 1)", "division by zero"),
        ("[0].map(x, 1 / x) == [1]", "division by zero"),
    ]);
}

#[test]
fn arithmetic_ends_at_the_range() {
    all_fail(&[
        ("9223372036854775807 + 1", "integer overflow"),
        ("-9223372036854775808 - 1", "integer overflow"),
        ("-9223372036854775808 / -1", "integer overflow"),
        ("18446744073709551615u + 1u", "unsigned integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("1 % 0", "modulus by zero"),
        ("1u / 0u", "division by zero"),
        ("int(1e30 + 0.0)", "integer overflow"),
        ("uint(-1 + 0)", "unsigned integer overflow"),
        ("[1][1]", "index out of bounds: 1"),
        ("[1][-1]", "index out of bounds: -1"),
        ("{'a': 1}['b']", "no such key: b"),
        ("{'a': 1}.b", "no such key: b"),
        ("{'a': 1, 'a' + '': 2}", "Failed with repeated key: a"),
        ("dyn(1) + dyn('a')", "no such overload: _+_(int, string)"),
        ("dyn(1).startsWith('a')", "no such overload: int.startsWith(string)"),
    ]);
    all_true(&["1.0 / 0.0 > 1.0", "!(0.0 / 0.0 == 0.0 / 0.0)", "!(0.0 / 0.0 < 1.0)"]);
}

#[test]
fn macros_loop() {
    all_true(&[
        "[1, 2, 3].all(x, x > 0) && ![1, 2, 3].all(x, x > 1)",
        "[].all(x, false) && ![].exists(x, true)",
        "[1, 2, 3].exists(x, x == 2)",
        "[1, 2, 2].exists_one(x, x == 1) && ![1, 2, 2].exists_one(x, x == 2)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6]",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x % 2 == 1) == [1, 3]",
        "{'a': 1, 'b': 2}.all(k, k < 'c') && {'a': 1}.map(k, k) == ['a']",
        "[[1], [2, 3]].map(x, x.map(y, y + size(x))) == [[2], [4, 5]]",
        "[1, 2].all(i, v, i + 1 == v) && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "{'a': 1, 'b': 1}.existsOne(k, v, k == 'b')",
        "[5, 6].transformList(i, v, v > 5, i * v) == [6]",
        "{'a': 1}.transformList(k, v, k + string(v)) == ['a1']",
        "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 2) == {'b': 4}",
        "['a', 'b'].transformMapEntry(i, v, {v: i}) == {'a': 0, 'b': 1}",
        "cel.bind(x, 3, x * x) == 9",
        "cel.bind(x, 1, cel.bind(y, x + 1, [1].map(z, x + y + z))) == [4]",
        "cel.bind(unused, 1 / 0, true)",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
    ]);
}

#[test]
fn optionals_stand_for_what_may_be_missing() {
    all_true(&[
        "{'a': 1}.?a == optional.of(1) && {'a': 1}.?b == optional.none()",
        "{'a': {'b': 1}}.?a.b == optional.of(1) && !{'a': {'b': 1}}.?x.b.hasValue()",
        "[1][?0].value() == 1 && ![1][?3].hasValue()",
        "{'a': 1}[?'b'].orValue(5) == 5",
        "optional.none().or(optional.of(2)).value() == 2",
        "optional.ofNonZeroValue('') == optional.none() && optional.ofNonZeroValue(1).hasValue()",
        "optional.of(2).optMap(x, x * 2) == optional.of(4)",
        "optional.none().optMap(x, x) == optional.none()",
        "optional.of({'a': 1}).optFlatMap(x, x.?a).value() == 1",
        "[?optional.none(), ?optional.of(1)] == [1]",
        "{?'a': optional.none(), 'b': 1} == {'b': 1}",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()",
        "[optional.of(1), optional.none()].unwrapOpt() == [1]",
    ]);
    all_fail(&[("optional.none().value()", "optional.none() dereference")]);
}

#[test]
fn types_are_values() {
    all_true(&[
        "type(1) == int && type(1u) == uint && type(1.0) == double && type('') == string && type(b'') == bytes",
        "type([]) == list && type({}) == map && type(null) == null_type && type(true) == bool",
        "type(type(1)) == type && type(int) == type",
        "type(duration('1s')) == google.protobuf.Duration",
        "type(optional.of(1)) == optional_type",
        "type(ip('::1')) == net.IP",
    ]);
}

#[test]
fn conversions() {
    all_true(&[
        "int('42') == 42 && int(4.9) == 4 && int(-4.9) == -4 && int(3u) == 3",
        "uint('42') == 42u && uint(3) == 3u && double('1.5') == 1.5 && double(2) == 2.0",
        "string(1) == '1' && string(1.5) == '1.5' && string(true) == 'true' && string(b'abc') == 'abc'",
        "string(1e21) == '1e+21' && string(2.0) == '2' && string(1e-7) == '1e-07'",
        "string(duration('90m')) == '5400s'",
        "string(timestamp('2024-02-29T12:00:00Z')) == '2024-02-29T12:00:00Z'",
        "bool('true') && !bool('f')",
        "int(timestamp('1970-01-01T00:01:00Z')) == 60 && timestamp(60) == timestamp('1970-01-01T00:01:00Z')",
        "dyn(1) == 1",
    ]);
    all_fail(&[("int('x' + '')", "strconv.ParseInt: parsing \"x\": invalid syntax")]);
}

#[test]
fn times_have_parts() {
    all_true(&[
        "timestamp('2024-02-29T23:30:15.250Z').getFullYear() == 2024",
        "timestamp('2024-02-29T23:30:15.250Z').getMonth() == 1",
        "timestamp('2024-02-29T23:30:15.250Z').getDate() == 29",
        "timestamp('2024-02-29T23:30:15.250Z').getDayOfMonth() == 28",
        "timestamp('2024-02-29T23:30:15.250Z').getDayOfWeek() == 4",
        "timestamp('2024-02-29T23:30:15.250Z').getDayOfYear() == 59",
        "timestamp('2024-02-29T23:30:15.250Z').getHours('+02:00') == 1",
        "timestamp('2024-02-29T23:30:15.250Z').getHours('America/New_York') == 18",
        "timestamp('2024-02-29T23:30:15.250Z').getMinutes() == 30",
        "timestamp('2024-02-29T23:30:15.250Z').getMilliseconds() == 250",
        "duration('1h30m').getMinutes() == 90 && duration('1h30m').getHours() == 1",
        "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "duration('1s') < duration('1m') && duration('1s') + duration('59s') == duration('1m')",
    ]);
    all_fail(&[("timestamp(0).getHours('Nowhere/City')", "unknown time zone Nowhere/City")]);
}

#[test]
fn costs_are_counted_as_upstream_counts_them() {
    for (text, expected) in [
        ("true", 0),
        ("1 + 2 == 3", 2),
        ("[1, 2, 3].all(x, x > 0)", 3 * 5 + 1),
        ("[1, 2, 3].exists(x, x == 1)", 4 + 2 + 3 + 1),
        ("[1, 2].map(x, x)", 2 * 13 + 1),
        ("[1, 2].filter(x, x == 1)", 2 * 2 + 13 + 1),
        ("'abc' in ['abc', 'def']", 0),
        ("'a'.startsWith('b')", 1),
        ("'aaaaaaaaaaaaaaaaaaaa'.matches('a*')", 3),
    ] {
        assert_eq!(run(text).unwrap().1, expected, "{text}");
    }
}
