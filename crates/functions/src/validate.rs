//! What a Function must look like.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minik8s_api::{At, FieldErrors, NameRule};
use minik8s_meta::destination::Destination;
use minik8s_meta::function::{CODE_REPOSITORY, runtime, runtime_names};
use minik8s_meta::image_repository::REGISTRY_HOST;
use serde_json::Value;

use crate::zip;

/// Bytes of inline source.
pub const LARGEST_SOURCE: usize = 256 << 10;
/// Bytes of an archive. With its base64 form and the spec it must fit into a ConfigMap.
pub const LARGEST_ZIP: usize = 700 << 10;
/// Pods are called after it, with a hash and a few letters behind.
const LONGEST_NAME: usize = 40;
const MOST_INSTANCES: i64 = 1000;
/// Variables that the runtime is told by.
const OWN_PREFIX: &str = "FN_";

pub fn function(object: &Value, errors: &mut FieldErrors) {
    let root = At::root(object);
    let name = root.field("metadata").field("name");
    if name.text().len() > LONGEST_NAME {
        name.invalid(
            errors,
            format!("must be no more than {LONGEST_NAME} characters: pods are named after it"),
        );
    }
    let spec = root.field("spec");
    what_runs(&spec, errors);
    pushed_code(&root, errors);
    bounds(&spec, errors);
    volumes(&spec, errors);
    destinations(&spec.field("async"), errors);
    crate::traffic::validate(&spec.field("traffic"), errors);
    for variable in spec.field("env").items() {
        let name = variable.field("name");
        if name.need(errors) && (name.text().starts_with(OWN_PREFIX) || name.text() == "PORT") {
            name.invalid(
                errors,
                "is set by the runtime: choose a name that is not PORT and does not begin with FN_",
            );
        }
    }
}

/// Either an image, or a runtime with code.
fn what_runs(spec: &At<'_>, errors: &mut FieldErrors) {
    let (image, language, code) = (spec.field("image"), spec.field("runtime"), spec.field("code"));
    if image.is_set() {
        for other in [&language, &code, &spec.field("handler"), &spec.field("dependencies")] {
            if other.is_set() {
                other.forbidden(
                    errors,
                    "a function with an image has no runtime, handler, code and dependencies",
                );
            }
        }
        return;
    }
    let names = runtime_names();
    if !language.is_set() {
        let detail = format!("name one of {}, or give an image that listens on $PORT", names.join(", "));
        language.required(errors, &detail);
    } else if runtime(language.text()).is_none() {
        language.not_supported(errors, &names);
    }
    let handler = spec.field("handler");
    if handler.is_set() && !is_handler(handler.text()) {
        handler.invalid(errors, "must be MODULE.FUNCTION, e.g. main.handler");
    }
    let given = ["source", "zip", "image"].map(|field| code.field(field).is_set());
    match given {
        [false, false, false] => {
            code.required(errors, "give code.source (the text of one file) or code.zip (base64)")
        }
        [true, false, false] => source(&code.field("source"), errors),
        [false, true, false] => archive(&code.field("zip"), errors),
        [false, false, true] => {}
        _ => code.invalid(errors, "must have one of source, zip and image, not both"),
    }
}

/// Of the function's own repository, which is collected with its revisions.
fn pushed_code(root: &At<'_>, errors: &mut FieldErrors) {
    let image = root.field("spec").field("code").field("image");
    if !image.is_set() {
        return;
    }
    let (namespace, name) = (root.field("metadata").field("namespace"), root.field("metadata").field("name"));
    let repository = format!("{REGISTRY_HOST}/{}/{CODE_REPOSITORY}{}", namespace.text(), name.text());
    let digest = image.text().strip_prefix(&repository).and_then(|rest| rest.strip_prefix("@sha256:"));
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !digest.is_some_and(|digest| digest.len() == 64 && is_hex(digest)) {
        let detail = format!("must be {repository}@sha256:DIGEST, as `minik8s function` pushes it");
        image.invalid(errors, detail);
    }
}

fn source(source: &At<'_>, errors: &mut FieldErrors) {
    let length = source.text().len();
    if length > LARGEST_SOURCE {
        // The text itself would make the error as large.
        let detail = format!("has {length} bytes; at most {LARGEST_SOURCE}: use an image for more");
        source.forbidden(errors, detail);
    }
}

fn archive(archive: &At<'_>, errors: &mut FieldErrors) {
    let problem = match STANDARD.decode(archive.text()) {
        Err(error) => format!("is not base64: {error}"),
        Ok(bytes) if bytes.len() > LARGEST_ZIP => {
            format!(
                "has {} bytes; at most {LARGEST_ZIP}: `minik8s function create --from` takes more",
                bytes.len()
            )
        }
        Ok(bytes) => match zip::check(&bytes) {
            Ok(()) => return,
            Err(problem) => format!("is not an archive that can be used: {problem}"),
        },
    };
    archive.forbidden(errors, problem);
}

fn bounds(spec: &At<'_>, errors: &mut FieldErrors) {
    let mut within = |at: At<'_>, low: i64, high: i64| {
        if at.int().is_some_and(|number| !(low..=high).contains(&number)) {
            at.invalid(errors, format!("must be between {low} and {high}"));
        }
    };
    let (scale, queue) = (spec.field("scale"), spec.field("queue"));
    within(spec.field("concurrency"), 1, 1000);
    within(spec.field("timeoutSeconds"), 1, 3600);
    within(scale.field("min"), 0, MOST_INSTANCES);
    within(scale.field("minActive"), 0, MOST_INSTANCES);
    within(scale.field("max"), 1, MOST_INSTANCES);
    within(scale.field("idleSeconds"), 1, 86_400);
    within(scale.field("scaleDownSeconds"), 1, 3600);
    within(scale.field("targetUtilization"), 1, 100);
    within(queue.field("seconds"), 0, 600);
    within(queue.field("max"), 0, 10_000);
    within(spec.field("async").field("retries"), 0, 99);
    within(spec.field("async").field("maxAgeSeconds"), 1, 2_592_000);
    for least in [scale.field("min"), scale.field("minActive")] {
        if let (Some(low), Some(high)) = (least.int(), scale.field("max").int())
            && low > high
        {
            least.invalid(errors, "must not be larger than max");
        }
    }
}

/// Who is told of the end of calls.
pub fn destinations(at: &At<'_>, errors: &mut FieldErrors) {
    for field in ["onSuccess", "onFailure"] {
        let at = at.field(field);
        if at.exists() && serde_json::from_value::<Destination>(at.value.clone()).is_err() {
            at.invalid(errors, "must be a function's name, {function: NAME} or {workflow: NAME}");
        }
    }
}

/// Claims go where nothing of the runtime's is.
fn volumes(spec: &At<'_>, errors: &mut FieldErrors) {
    let mut paths = Vec::new();
    for volume in spec.field("volumes").items() {
        let (claim, path) = (volume.field("claim"), volume.field("path"));
        claim.need_form(errors, |name| NameRule::Subdomain.problems(name));
        let text = path.text().trim_end_matches('/');
        let is_plain =
            text.starts_with('/') && text[1..].split('/').all(|part| !matches!(part, "" | "." | ".."));
        let is_ours = ["/fn", "/tmp", "/usr", "/etc", "/proc", "/sys", "/dev", "/node_modules"]
            .iter()
            .any(|ours| text == *ours || text.strip_prefix(ours).is_some_and(|rest| rest.starts_with('/')));
        if !is_plain || is_ours {
            path.invalid(errors, "must be an absolute path, e.g. /data, and none that the runtime uses");
        } else if paths.contains(&text) {
            path.duplicate(errors);
        }
        paths.push(text);
    }
}

fn is_handler(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && !word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '-'))
    };
    let mut words = text.split(['.', '/']);
    text.contains('.') && words.all(is_word) && text.len() <= 200
}

#[cfg(test)]
mod tests {
    use minik8s_api::Strategy;
    use serde_json::json;

    use super::*;

    fn check(spec: Value, expected: &str) {
        let mut errors = FieldErrors::default();
        function(&json!({"metadata": {"name": "f"}, "spec": spec}), &mut errors);
        let text = format!("{errors:?}");
        match expected {
            "" => assert!(errors.is_empty(), "{spec}: {text}"),
            expected => assert!(text.contains(expected), "{spec}: {text}"),
        }
    }

    #[test]
    fn function_has_an_image_or_a_runtime_with_code() {
        check(json!({"runtime": "python3.11", "code": {"source": "def main(p): return p"}}), "");
        check(json!({"image": "registry.example/app:1"}), "");
        check(json!({}), "or give an image");
        check(json!({"runtime": "cobol", "code": {"source": "x"}}), "python3.11");
        check(json!({"runtime": "cobol", "code": {"source": "x"}}), "nodejs18");
        for name in ["python3", "python", "nodejs18", "nodejs20", "node"] {
            check(json!({"runtime": name, "code": {"source": "x"}}), "");
        }
        check(json!({"runtime": "nodejs"}), "give code.source");
        check(json!({"runtime": "nodejs", "code": {"source": "x", "zip": "eA=="}}), "not both");
        check(json!({"runtime": "nodejs", "code": {"zip": "???"}}), "is not base64");
        check(json!({"runtime": "nodejs", "code": {"zip": "eHh4"}}), "not an archive");
        check(json!({"runtime": "nodejs", "code": {"source": "x", "image": "a:1"}}), "not both");
        check(json!({"image": "a:1", "runtime": "nodejs"}), "has no runtime");
        check(json!({"image": "a:1", "dependencies": "b:1"}), "has no runtime");
        check(
            json!({"runtime": "nodejs", "code": {"source": "x".repeat(LARGEST_SOURCE + 1)}}),
            "use an image",
        );
    }

    #[test]
    fn pushed_code_is_of_the_function_itself() {
        let hex = "0a".repeat(32);
        let verdict = |image: &str| {
            let mut errors = FieldErrors::default();
            let code = json!({"image": image.replace("HEX", &hex)});
            let spec = json!({"runtime": "python3.11", "code": code});
            function(&json!({"metadata": {"name": "f", "namespace": "shop"}, "spec": spec}), &mut errors);
            errors.is_empty()
        };
        assert!(verdict("registry.minik8s.local/shop/function-code.f@sha256:HEX"));
        for bad in [
            "registry.minik8s.local/other/function-code.f@sha256:HEX",
            "registry.minik8s.local/shop/function-code.g@sha256:HEX",
            "registry.minik8s.local/shop/app@sha256:HEX",
            "registry.minik8s.local/shop/function-code.f:1",
            "registry.minik8s.local/shop/function-code.f@sha256:0a",
            "registry.minik8s.local/shop/function-code.f@sha256:HEXHEX",
            "registry.minik8s.local/shop/function-code.f/../g@sha256:HEX",
            "quay.io/shop/function-code.f@sha256:HEX",
            "x",
        ] {
            assert!(!verdict(bad), "{bad}");
        }
    }

    #[test]
    fn function_bounds_are_checked() {
        let with = |key: &str, value: Value| {
            let mut spec = json!({"image": "a:1"});
            spec[key] = value;
            spec
        };
        check(with("concurrency", json!(0)), "between 1 and 1000");
        check(with("timeoutSeconds", json!(3601)), "between 1 and 3600");
        check(with("scale", json!({"min": 3, "max": 2})), "larger than max");
        check(with("scale", json!({"minActive": 3, "max": 2})), "larger than max");
        check(with("scale", json!({"minActive": 2, "max": 2})), "");
        check(with("scale", json!({"idleSeconds": 0})), "between 1 and");
        check(with("scale", json!({"targetUtilization": 80})), "");
        check(with("scale", json!({"targetUtilization": 0})), "between 1 and 100");
        check(with("async", json!({"retries": 100})), "between 0 and 99");
        check(with("async", json!({"retries": 0, "maxAgeSeconds": 60, "onSuccess": {"workflow": "w"}})), "");
        check(with("async", json!({"onFailure": {"workflow": "w", "function": "f"}})), "{workflow: NAME}");
        check(with("async", json!({"onFailure": 5})), "{workflow: NAME}");
        check(with("volumes", json!([{"claim": "c", "path": "/data/in"}])), "");
        for path in ["data", "/", "/fn/code", "/tmp", "/a/../fn", "/a//b", ""] {
            check(with("volumes", json!([{"claim": "c", "path": path}])), "absolute path");
        }
        check(
            with("volumes", json!([{"claim": "c", "path": "/a"}, {"claim": "d", "path": "/a/"}])),
            "Duplicate",
        );
        check(with("volumes", json!([{"claim": "", "path": "/a"}])), "claim");
        check(with("queue", json!({"max": -1})), "between 0 and");
        check(with("traffic", json!([{"revision": 1, "percent": 90}, {"revision": 2, "percent": 10}])), "");
        check(
            with("traffic", json!([{"revision": 1, "percent": 90}, {"revision": 2, "percent": 11}])),
            "101 percent",
        );
        check(
            with("traffic", json!([{"revision": 1, "percent": 1}, {"revision": 1, "percent": 1}])),
            "Duplicate",
        );
        check(with("traffic", json!([{"revision": 0, "percent": 101}])), "between 0 and 100");
        check(with("env", json!([{"name": "FN_HANDLER", "value": "x"}])), "is set by the runtime");
    }

    #[test]
    fn handlers() {
        for (text, good) in [
            ("main.main", true),
            ("a/b.c", true),
            ("pkg.mod.f", true),
            ("main", false),
            ("main.", false),
            ("../x.y", false),
            ("a b.c", false),
            ("os;rm.x", false),
        ] {
            assert_eq!(is_handler(text), good, "{text}");
        }
    }

    #[test]
    fn defaulting_twice_is_defaulting_once() {
        let resource = crate::kind::resource();
        let strategy: &dyn Strategy = &*resource.strategy;
        let mut once = json!({"metadata": {"name": "f"}, "spec": {"image": "a:1"}});
        strategy.default(&mut once);
        let mut twice = once.clone();
        strategy.default(&mut twice);
        assert_eq!(once, twice);
        assert_eq!(once["spec"]["scale"]["max"], 20);
        let mut errors = FieldErrors::default();
        strategy.validate(&once, &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
    }
}
