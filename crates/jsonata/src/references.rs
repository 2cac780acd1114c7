//! Where an expression reads its input. Later steps of a path, predicates, orders and groups read what the step before
//! gave, so only first steps count; the body of a function reads what is around its definition. It evaluates nothing.

use crate::ast::{Kind, Node};

/// The first name that means a field of the input, or `$` or `$$`.
pub fn of_input(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Name(name) => Some(name),
        Kind::Variable(name) => match &**name {
            "" => Some("$"),
            "$" => Some("$$"),
            _ => None,
        },
        Kind::Path(steps) => steps.first().and_then(of_input),
        Kind::Binary { left, right, .. }
        | Kind::Apply { left, right }
        | Kind::Default { left, right, .. } => of_input(left).or_else(|| of_input(right)),
        Kind::Negate(inner) | Kind::Bind { value: inner, .. } => of_input(inner),
        Kind::Array(items) | Kind::Block(items) => items.iter().find_map(of_input),
        Kind::Object(pairs) => {
            pairs.iter().find_map(|(key, value)| of_input(key).or_else(|| of_input(value)))
        }
        Kind::Condition { condition, then, otherwise } => {
            of_input(condition).or_else(|| of_input(then)).or_else(|| otherwise.as_deref().and_then(of_input))
        }
        Kind::Call { procedure, arguments, .. } | Kind::Partial { procedure, arguments } => {
            of_input(procedure).or_else(|| arguments.iter().find_map(of_input))
        }
        Kind::Lambda { body, .. } => of_input(body),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::Expression;

    #[test]
    fn input_reference_is_found_in_first_steps_only() {
        for (source, expected) in [
            ("phone", Some("phone")),
            ("phone.number", Some("phone")),
            ("$", Some("$")),
            ("$$.a", Some("$$")),
            ("$states.input.phone", None),
            ("$states.input.items[value > 3]", None),
            ("$states.input.items.(name & 'x')", None),
            ("$states.input.items^(price).name", None),
            ("$states.input.items{name: price}", None),
            ("$map($states.input.a, function($x) { b })", Some("b")),
            ("$map($states.input.a, function($x) { $x.b })", None),
            ("{'a': 1 + b}", Some("b")),
            ("$states.input ~> |items|{'a': b}|", None),
            ("($x := 1; $x ? 'a' : [c])", Some("c")),
            ("$uuid()", None),
        ] {
            let expression = Expression::parse(source).unwrap();
            assert_eq!(expression.input_reference(), expected, "{source}");
        }
    }
}
