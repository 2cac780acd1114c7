//! What kubectl really sends: `kubectl.txt` has a command, the protobuf body of kubectl 1.33 for it in base64,
//! and the JSON body that kubectl 1.30 sends for the same command, nulls left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::decode;

#[test]
fn kubectl_means_the_same_in_both_forms() {
    let mut count = 0;
    for case in include_str!("kubectl.txt").split("\n\n") {
        let [command, body, expected] = case.lines().collect::<Vec<_>>()[..] else {
            panic!("a case has three lines: {case}");
        };
        let got = decode(&STANDARD.decode(body).unwrap()).unwrap_or_else(|e| panic!("{command}: {e}"));
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(got.object, expected, "{command}");
        assert!(got.unknown.is_empty(), "{command}: {:?}", got.unknown);
        count += 1;
    }
    assert!(count > 20, "only {count} cases were found");
}
