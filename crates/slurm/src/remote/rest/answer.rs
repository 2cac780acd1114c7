//! What slurmrestd says went wrong: a list of errors in every answer, whatever the HTTP status.

use serde_json::Value;

/// Slurm's numbers for what is wrong with a request, as against what is wrong with the cluster.
const REFUSALS: std::ops::Range<i64> = 2000..4000;
const NOT_UNDERSTOOD: i64 = 9001;

/// The number that says most, and all words.
pub fn trouble(answer: &Value) -> Option<(i64, String)> {
    let errors = answer["errors"].as_array().filter(|errors| !errors.is_empty())?;
    let number = |error: &Value| error["error_code"].as_i64().or(error["error_number"].as_i64());
    let code = errors.iter().filter_map(number).max().unwrap_or(-1);
    let words = errors.iter().map(|error| {
        let [what, why] = ["error", "description"].map(|field| error[field].as_str().unwrap_or_default());
        if why.is_empty() { what.to_owned() } else { format!("{why}: {what}") }
    });
    Some((code, words.collect::<Vec<_>>().join("; ")))
}

/// Asking again would not help.
pub fn is_refusal(code: i64) -> bool {
    REFUSALS.contains(&code) || code == NOT_UNDERSTOOD
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn troubles_are_told_in_slurms_words() {
        let check = |errors: Value, expected: Option<(i64, &str)>| {
            let found = trouble(&json!({"errors": errors}));
            assert_eq!(found.as_ref().map(|(code, words)| (*code, words.as_str())), expected);
        };
        check(json!([]), None);
        let partition = json!([{"error_code": 2000, "error": "Invalid partition name specified"}]);
        check(partition, Some((2000, "Invalid partition name specified")));
        let unknown = json!([
            {"description": "Disabled key: \"required_nodes\"", "error_number": 1, "error": "Operation not permitted"},
            {"error_code": 9001, "error": "Failure during parsing"},
        ]);
        let words = "Disabled key: \"required_nodes\": Operation not permitted; Failure during parsing";
        check(unknown, Some((9001, words)));
        let token = json!([{"description": "Failed while looking for jobs", "error_number": -1, "error": "Unspecified error"}]);
        check(token, Some((-1, "Failed while looking for jobs: Unspecified error")));
        assert!(is_refusal(2014) && is_refusal(9001) && !is_refusal(-1) && !is_refusal(1001));
        assert_eq!(trouble(&json!({"jobs": []})), None);
    }
}
