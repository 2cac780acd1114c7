use minik8s_cel::{Bindings, Budget, Environment, EvalError, Program};
use proptest::prelude::*;

/// Pieces of which most combinations are nearly expressions.
fn text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "1",
        "2u",
        "'a'",
        "b'x'",
        "1.5",
        "true",
        "null",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        ".",
        "?",
        ":",
        ",",
        "+",
        "-",
        "!",
        "&&",
        "||",
        "==",
        "<",
        " in ",
        "x",
        "self",
        "size",
        ".all(x, ",
        ".map(y, ",
        "has(",
        "cel.bind(",
        "\\",
        "\"",
        "é",
        "dyn(",
        ".?a",
        "[?0]",
        "%",
        "/",
        "//",
        "\n",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

/// Expressions that are well-formed, though perhaps not of fitting types.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "0",
        "1",
        "x",
        "'ab'",
        "true",
        "[1, 2, 3]",
        "{'a': 1}",
        "dyn(2)",
        "lists.range(50)",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} + {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} == {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}].map(x, {b})")),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| format!("lists.range(40).map(x, {a}).all(x, {b})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            inner.prop_map(|a| format!("dyn({a})")),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in text()) {
        let _ = Program::compile(&Environment::new(), &text);
    }

    #[test]
    fn any_characters_are_read_or_refused(text in ".{0,40}") {
        let _ = Program::compile(&Environment::new(), &text);
    }

    #[test]
    fn no_evaluation_costs_much_more_than_its_limit(text in expression(), limit in 0_u64..2000) {
        let environment = Environment::new().with_type("x", minik8s_cel::Type::Dyn);
        if let Ok(program) = Program::compile(&environment, &text) {
            let bindings = Bindings::new().with("x", minik8s_cel::Value::Int(1));
            let mut budget = Budget::new(limit);
            let found = program.evaluate(&bindings, &mut budget);
            // The step that was too much is counted, and nothing after it.
            prop_assert!(budget.spent() <= limit || found.is_err_and(|error| error == EvalError::CostLimit));
        }
    }
}

/// What costs little and grows fast ends before it fills the memory.
#[test]
fn memory_is_bounded() {
    let doubled = |first: &str| {
        let inner = (0..60)
            .rev()
            .fold("size(x60) > 0".to_owned(), |body, n| format!("cel.bind(x{}, x{n} + x{n}, {body})", n + 1));
        format!("cel.bind(x0, {first}, {inner})")
    };
    let long = "lists.range(1000).map(i, 'aaaaaaaaaa').join('bbbbbbbbbb')";
    for text in [
        doubled("[1]"),
        doubled("'a'"),
        format!("cel.bind(s, {long}, s.replace('', s).replace('', s)).size() > 0"),
        format!("cel.bind(s, {long}, s.split('').join(s)).size() > 0"),
        "cel.bind(l, lists.range(900), l.map(x, l).map(x, [l, l]).flatten(3).map(x, l).flatten()).size() > 0"
            .to_owned(),
    ] {
        let program =
            Program::compile(&Environment::new(), &text).unwrap_or_else(|errors| panic!("{errors}"));
        let found = program.evaluate(&Bindings::new(), &mut Budget::default());
        assert!(matches!(found, Err(EvalError::CostLimit)), "{text}: {found:?}");
    }
}
