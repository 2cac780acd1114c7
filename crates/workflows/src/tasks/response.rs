//! What an HTTP answer is to a state: AWS' shape of `http:invoke`. Pure.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

use super::TaskError;

pub fn output(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<Value, TaskError> {
    let mut shown = Map::new();
    for (name, value) in headers {
        let value = Value::from(String::from_utf8_lossy(value.as_bytes()));
        if let Value::Array(values) = shown.entry(name.as_str()).or_insert_with(|| json!([])) {
            values.push(value);
        }
    }
    let reason = status.canonical_reason().unwrap_or("");
    if !status.is_success() {
        let cause = json!({
            "Headers": shown, "ResponseBody": String::from_utf8_lossy(body), "StatusCode": status.as_u16(), "StatusText": reason,
        });
        return Err(TaskError::new(
            &format!("States.Http.StatusCode.{}", status.as_u16()),
            cause.to_string(),
        ));
    }
    let text = || Value::from(String::from_utf8_lossy(body).into_owned());
    let content = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let is_json = content.split(';').next().is_some_and(|kind| kind.trim().ends_with("json"));
    let body = if is_json { serde_json::from_slice(body).unwrap_or_else(|_| text()) } else { text() };
    Ok(json!({"Headers": shown, "ResponseBody": body, "StatusCode": status.as_u16(), "StatusText": reason}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_has_the_shape_of_aws() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "application/json; charset=utf-8".parse().unwrap());
        let made = output(StatusCode::OK, &headers, b"{\"a\": [1, null]}").unwrap();
        assert_eq!(made["ResponseBody"], json!({"a": [1, null]}));
        assert_eq!(made["StatusCode"], 200);
        assert_eq!(made["Headers"]["content-type"], json!(["application/json; charset=utf-8"]));
        let failed = output(StatusCode::IM_A_TEAPOT, &headers, b"no").unwrap_err();
        assert_eq!(failed.error, "States.Http.StatusCode.418");
        assert!(failed.cause.unwrap().contains("\"ResponseBody\":\"no\""));
        headers.insert(CONTENT_TYPE, "text/plain".parse().unwrap());
        assert_eq!(output(StatusCode::OK, &headers, b"1").unwrap()["ResponseBody"], "1");
    }
}
