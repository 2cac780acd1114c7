//! What filters must be like, with the messages of the project's own definitions.

use minik8s_api::{At, FieldErrors};
use minik8s_meta::format;

use super::validate::{most, reference, within};

/// The field of each type of filters.
const FILTERS: [(&str, &str); 7] = [
    ("RequestHeaderModifier", "requestHeaderModifier"),
    ("ResponseHeaderModifier", "responseHeaderModifier"),
    ("RequestMirror", "requestMirror"),
    ("RequestRedirect", "requestRedirect"),
    ("URLRewrite", "urlRewrite"),
    ("CORS", "cors"),
    ("ExtensionRef", "extensionRef"),
];

pub fn filters(all: &At<'_>, errors: &mut FieldErrors) {
    most(all, 16, errors);
    let count = |name: &str| all.items().filter(|filter| filter.field("type").text() == name).count();
    if count("RequestRedirect") > 0 && count("URLRewrite") > 0 {
        let text = "May specify either httpRouteFilterRequestRedirect or httpRouteFilterRequestRewrite, but not both";
        all.invalid(errors, text);
    }
    for name in ["CORS", "RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "URLRewrite"] {
        if count(name) > 1 {
            all.invalid(errors, format!("{name} filter cannot be repeated"));
        }
    }
    for filter in all.items() {
        let kind = filter.field("type");
        kind.need_one_of(errors, &FILTERS.map(|(name, _)| name));
        for (name, field) in FILTERS {
            match (kind.text() == name, filter.field(field).exists()) {
                (true, false) => {
                    filter
                        .invalid(errors, format!("filter.{field} must be specified for {name} filter.type"));
                }
                (false, true) => {
                    filter.invalid(
                        errors,
                        format!("filter.{field} must be nil if the filter.type is not {name}"),
                    );
                }
                _ => {}
            }
        }
        one_filter(&filter, errors);
    }
}

fn one_filter(filter: &At<'_>, errors: &mut FieldErrors) {
    for name in ["requestHeaderModifier", "responseHeaderModifier"] {
        let change = filter.field(name);
        for header in ["set", "add"].iter().flat_map(|list| change.field(list).items()) {
            header_name(&header.field("name"), errors);
            if header.field("value").text().bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 127) {
                header.field("value").invalid(errors, "must not contain control characters");
            }
        }
        change.field("remove").items().for_each(|header| header_name(&header, errors));
    }
    let mirror = filter.field("requestMirror");
    if mirror.exists() {
        reference(&mirror.field("backendRef"), errors);
        if mirror.field("percent").exists() {
            within(&mirror.field("percent"), 0, 100, errors);
            if mirror.field("fraction").exists() {
                let text = "Only one of percent or fraction may be specified in HTTPRequestMirrorFilter";
                mirror.invalid(errors, text);
            }
        }
        let fraction = mirror.field("fraction");
        let [top, bottom] = ["numerator", "denominator"].map(|name| fraction.field(name).int());
        if fraction.exists()
            && top.zip(bottom).is_some_and(|(top, bottom)| top < 0 || bottom < 1 || top > bottom)
        {
            fraction.invalid(errors, "numerator must be less than or equal to denominator");
        }
    }
    let redirect = filter.field("requestRedirect");
    redirect.field("scheme").one_of(errors, &["http", "https"]);
    redirect.field("hostname").has_form(errors, format::subdomain);
    if redirect.field("port").exists() {
        within(&redirect.field("port"), 1, 65535, errors);
    }
    let code = redirect.field("statusCode");
    if code.int().is_some_and(|code| ![301, 302, 303, 307, 308].contains(&code)) {
        code.invalid(errors, "must be 301, 302, 303, 307 or 308");
    }
    path_modifier(&redirect.field("path"), errors);
    cors(&filter.field("cors"), errors);
    filter.field("urlRewrite").field("hostname").has_form(errors, format::subdomain);
    path_modifier(&filter.field("urlRewrite").field("path"), errors);
}

/// `*` is for all, so nothing is beside it.
fn cors(cors: &At<'_>, errors: &mut FieldErrors) {
    for (field, name, what) in [
        ("allowOrigins", "AllowOrigins", "origins"),
        ("allowMethods", "AllowMethods", "methods"),
        ("allowHeaders", "AllowHeaders", "methods"),
    ] {
        let all = cors.field(field);
        if all.len() > 1 && all.items().any(|one| one.text() == "*") {
            all.invalid(errors, format!("{name} cannot contain '*' alongside other {what}"));
        }
    }
}

fn path_modifier(path: &At<'_>, errors: &mut FieldErrors) {
    if !path.exists() {
        return;
    }
    path.field("type").need_one_of(errors, &["ReplaceFullPath", "ReplacePrefixMatch"]);
    for (name, field) in
        [("ReplaceFullPath", "replaceFullPath"), ("ReplacePrefixMatch", "replacePrefixMatch")]
    {
        let value = path.field(field);
        match (path.field("type").text() == name, value.exists()) {
            (true, false) => {
                path.invalid(errors, format!("{field} must be specified when type is set to '{name}'"))
            }
            (false, true) => path.invalid(errors, format!("type must be '{name}' when {field} is set")),
            _ => {}
        }
        if value.text().bytes().any(|byte| !byte.is_ascii_graphic()) {
            value.invalid(errors, "must be a path");
        }
    }
}

fn header_name(name: &At<'_>, errors: &mut FieldErrors) {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.text().is_empty() || !name.text().bytes().all(is_token) {
        name.invalid(errors, "must be a name of a header");
    }
}
