use minik8s_cel::{Declaration, Environment};
use serde_json::json;

use crate::support::faults;

fn check(text: &str, expected: &str) {
    assert_eq!(faults(&Environment::new(), text), expected, "{text}");
}

#[test]
fn what_cannot_be_read_is_shown_with_its_place() {
    check(
        "1 +",
        "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', \
         'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | 1 +\n | ...^",
    );
    check("1 2", "ERROR: <input>:1:3: Syntax error: mismatched input '2' expecting <EOF>\n | 1 2\n | ..^");
    check("a.b &&\n  for", "ERROR: <input>:2:3: reserved identifier: for\n |   for\n | ..^");
    check("99999999999999999999", "ERROR: <input>:1:1: invalid int literal\n | 99999999999999999999\n | ^");
    check("has(a)", "ERROR: <input>:1:4: invalid argument to has() macro\n | has(a)\n | ...^");
    check(
        "[1].all(1, true)",
        "ERROR: <input>:1:9: argument must be a simple name\n | [1].all(1, true)\n | ........^",
    );
    let all = faults(&Environment::new(), "1 + $");
    assert!(all.starts_with("ERROR: <input>:1:5: Syntax error: token recognition error at: '$'"), "{all}");
}

#[test]
fn what_does_not_fit_is_named() {
    check("x", "ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x\n | ^");
    check("f(1)", "ERROR: <input>:1:2: undeclared reference to 'f' (in container '')\n | f(1)\n | .^");
    check(
        "1 + 'a'",
        "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a'\n | ..^",
    );
    check(
        "'a'.startsWith(1)",
        "ERROR: <input>:1:15: found no matching overload for 'startsWith' applied to 'string.(int)'\n | \
         'a'.startsWith(1)\n | ..............^",
    );
    check(
        "1 == 'a'",
        "ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, string)'\n | 1 == 'a'\n | ..^",
    );
    check("[1, 'a']", "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^");
    check("1 && true", "ERROR: <input>:1:1: expected type 'bool' but found 'int'\n | 1 && true\n | ^");
    check("'a'.b", "ERROR: <input>:1:4: type 'string' does not support field selection\n | 'a'.b\n | ...^");
    check("duration('x')", "ERROR: <input>:1:10: invalid duration argument\n | duration('x')\n | .........^");
    check(
        "'a'.matches('(')",
        "ERROR: <input>:1:13: invalid matches argument\n | 'a'.matches('(')\n | ............^",
    );
    check(
        "1.all(x, true)",
        "ERROR: <input>:1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\
         \n | 1.all(x, true)\n | ^",
    );
    check(
        "Object{}",
        "ERROR: <input>:1:7: undeclared reference to 'Object' (in container '')\n | Object{}\n | ......^",
    );
}

#[test]
fn fields_are_those_of_the_schema() {
    let schema = json!({"type": "object", "properties": {
        "replicas": {"type": "integer"}, "name-with.dots": {"type": "string"}, "any": {}}});
    let declaration = Declaration::of_schema(&schema, "selfType", false).unwrap();
    let environment = Environment::new().with("self", declaration);
    let fault = |text| faults(&environment, text).lines().next().unwrap().to_owned();
    assert_eq!(fault("self.missing == 1"), "ERROR: <input>:1:5: undefined field 'missing'");
    assert_eq!(fault("self.any == 1"), "ERROR: <input>:1:5: undefined field 'any'");
    assert_eq!(
        fault("self.replicas == 'a'"),
        "ERROR: <input>:1:15: found no matching overload for '_==_' applied to '(int, string)'"
    );
    assert!(minik8s_cel::Program::compile(&environment, "self.name__dash__with__dot__dots == ''").is_ok());
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = "(".repeat(1000) + "1" + &")".repeat(1000);
    assert!(faults(&Environment::new(), &deep).contains("expression recursion limit exceeded: 250"));
    let chain = vec!["1"; 5000].join("+");
    assert!(faults(&Environment::new(), &chain).contains("expression recursion limit exceeded: 250"));
    let long = vec!["true"; 10_000].join(" && ");
    assert!(minik8s_cel::Program::compile(&Environment::new(), &long).is_ok());
    let longer = " ".repeat(100_001);
    assert!(faults(&Environment::new(), &longer).contains("size: 100001, limit 100000"));
}
