//! Which requests a tap wants, as text on the way and compiled where it is used. Pure.

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::pattern;

/// What is not said does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TapFilter {
    /// A regular expression that the path must have a match of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Codes, or classes of them, with commas between: `404,5xx`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Namespace and name of the Service that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// A filter that is ready to use.
#[derive(Debug)]
pub struct TapMatcher {
    path: Option<Regex>,
    /// The first and the last code of each class.
    codes: Vec<(u16, u16)>,
    method: Option<String>,
    to: Option<String>,
}

impl TapFilter {
    /// Of the query of a request.
    pub fn parse(query: &str) -> Result<Self, String> {
        let mut filter = TapFilter::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let field = match &*name {
                "path" => &mut filter.path,
                "status" => &mut filter.status,
                "method" => &mut filter.method,
                "to" => &mut filter.to,
                other => return Err(format!("a tap does not know {other:?}: path, status, method and to")),
            };
            *field = Some(value.into_owned());
        }
        Ok(filter)
    }

    pub fn query(&self) -> String {
        let fields =
            [("path", &self.path), ("status", &self.status), ("method", &self.method), ("to", &self.to)];
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in fields {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.finish()
    }

    pub fn compile(&self) -> Result<TapMatcher, String> {
        let path = self.path.as_deref().map(pattern::compile).transpose();
        let codes = self.status.iter().flat_map(|text| text.split(',')).map(codes);
        Ok(TapMatcher {
            path: path.map_err(|problem| format!("the path {problem}"))?,
            codes: codes.collect::<Result<_, _>>()?,
            method: self.method.as_ref().map(|method| method.to_ascii_uppercase()),
            to: self.to.clone(),
        })
    }
}

/// `404` is itself, `5xx` all from 500 to 599.
fn codes(text: &str) -> Result<(u16, u16), String> {
    let wrong = || format!("{text:?} is no code of answers, such as 404 or 5xx");
    let text = text.trim();
    let digit = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX"));
    if let Some(digit) = digit {
        let class: u16 = digit.parse().map_err(|_| wrong())?;
        return (1..=5).contains(&class).then_some((class * 100, class * 100 + 99)).ok_or_else(wrong);
    }
    let code: u16 = text.parse().map_err(|_| wrong())?;
    (100..600).contains(&code).then_some((code, code)).ok_or_else(wrong)
}

impl TapMatcher {
    pub fn matches(&self, method: &str, path: &str, code: u16, service: &str) -> bool {
        self.method.as_deref().is_none_or(|wanted| wanted == method)
            && self.to.as_deref().is_none_or(|wanted| wanted == service)
            && (self.codes.is_empty() || self.codes.iter().any(|(from, to)| (*from..=*to).contains(&code)))
            && self.path.as_ref().is_none_or(|wanted| wanted.is_match(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_survives_its_way_and_matches() {
        let check = |query: &str, expected: &[u16]| {
            let filter = TapFilter::parse(query).unwrap();
            assert_eq!(TapFilter::parse(&filter.query()), Ok(filter.clone()), "{query}");
            let matcher = filter.compile().unwrap();
            let codes = [200, 404, 500, 503].into_iter();
            let found: Vec<u16> =
                codes.filter(|code| matcher.matches("GET", "/reviews/1", *code, "ns/reviews")).collect();
            assert_eq!(found, expected, "{query}");
        };
        check("", &[200, 404, 500, 503]);
        check("status=5xx", &[500, 503]);
        check("status=404%2C503", &[404, 503]);
        check("path=%5E%2Freviews%2F%5B0-9%5D%2B%24&method=get", &[200, 404, 500, 503]);
        check("path=%5E%2Fratings", &[]);
        check("method=POST", &[]);
        check("to=ns%2Freviews&status=200", &[200]);
        check("to=other%2Freviews", &[]);
    }

    #[test]
    fn bad_filter_is_explained() {
        let check = |query: &str, expected: &str| {
            let told = TapFilter::parse(query).and_then(|filter| filter.compile()).unwrap_err();
            assert!(told.contains(expected), "{query}: {told}");
        };
        check("status=6xx", "404 or 5xx");
        check("status=20", "404 or 5xx");
        check("path=a(b", "a(b\n     ^");
        check("body=x", "does not know \"body\"");
    }
}
