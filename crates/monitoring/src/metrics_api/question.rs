//! What is asked for, and the PromQL that answers it. Pure.

use minik8s_api::{LabelSelector, Operator};

use crate::promql::is_metric_name;

/// A counter's rate is taken over this.
const WINDOW: &str = "1m";

#[derive(Debug, PartialEq)]
pub struct Question {
    /// `custom.metrics.k8s.io/v1beta2`.
    pub api_version: String,
    pub namespace: String,
    pub metric: String,
    /// Which series.
    pub labels: LabelSelector,
    pub about: About,
}

#[derive(Debug, PartialEq)]
pub enum About {
    /// Series of the namespace, whatever they are about.
    External,
    /// The namespace itself.
    Namespace,
    Objects {
        /// `pods`, `ingresses.networking.k8s.io`.
        resource: String,
        /// None yet: those that the selector chooses.
        names: Vec<String>,
        selector: LabelSelector,
    },
}

impl Question {
    pub fn parse(path: &str, query: &str) -> Result<Self, String> {
        let parts: Vec<&str> = path.trim_start_matches("/apis/").trim_end_matches('/').split('/').collect();
        let (mut labels, mut selector) = (LabelSelector::default(), LabelSelector::default());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let parsed = || LabelSelector::parse(&value).map_err(|error| format!("{name}: {error}"));
            match (&*name, parts.first()) {
                ("labelSelector", Some(&"external.metrics.k8s.io")) | ("metricLabelSelector", _) => {
                    labels = parsed()?
                }
                ("labelSelector", _) => selector = parsed()?,
                _ => {}
            }
        }
        let (api_version, namespace, metric, about) = match parts[..] {
            [group @ "external.metrics.k8s.io", version @ "v1beta1", "namespaces", namespace, metric] => {
                (format!("{group}/{version}"), namespace, metric, About::External)
            }
            [group @ "custom.metrics.k8s.io", version @ ("v1beta1" | "v1beta2"), "namespaces", namespace, "metrics", metric] => {
                (format!("{group}/{version}"), namespace, metric, About::Namespace)
            }
            [group @ "custom.metrics.k8s.io", version @ ("v1beta1" | "v1beta2"), "namespaces", namespace, resource, name, metric] => {
                let names = if name == "*" { Vec::new() } else { vec![name.to_owned()] };
                let about = About::Objects { resource: resource.to_owned(), names, selector };
                (format!("{group}/{version}"), namespace, metric, about)
            }
            _ => return Err("there is no such metric API: it has external.metrics.k8s.io/v1beta1/namespaces/NS/METRIC and \
                             custom.metrics.k8s.io/v1beta2/namespaces/NS/RESOURCE/NAME/METRIC"
                .to_owned()),
        };
        if !is_metric_name(metric) {
            return Err(format!("{metric:?} is no name of a metric"));
        }
        Ok(Question {
            api_version,
            namespace: namespace.to_owned(),
            metric: metric.to_owned(),
            labels,
            about,
        })
    }

    /// The label that names an object of this resource: `pod` for pods.
    pub fn label(resource: &str) -> String {
        let plural = resource.split('.').next().unwrap_or_default();
        let singular = match plural.strip_suffix("ies") {
            Some(stem) => format!("{stem}y"),
            None => match plural.strip_suffix("sses") {
                Some(stem) => format!("{stem}ss"),
                None => plural.strip_suffix('s').unwrap_or(plural).to_owned(),
            },
        };
        singular.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
    }

    /// A gauge as it is; of a counter (`…_total`) the rate, also by the names that prometheus-adapter gives it.
    pub fn query(&self) -> String {
        let mut matchers = vec![format!("namespace={}", quoted(&self.namespace))];
        let mut by = String::new();
        if let About::Objects { resource, names, .. } = &self.about {
            let label = Self::label(resource);
            let pattern: Vec<String> = names.iter().map(|name| escaped(name)).collect();
            matchers.push(format!("{label}=~{}", quoted(&pattern.join("|"))));
            by = label;
        }
        matchers.extend(self.labels.requirements().iter().filter_map(matcher));
        let matchers = matchers.join(",");
        let metric = &self.metric;
        let stem = metric.strip_suffix("_per_second").unwrap_or(metric);
        let rate = |name: &str| format!("rate({name}{{{matchers}}}[{WINDOW}])");
        let series = match metric.ends_with("_total") {
            true => vec![rate(metric)],
            false => vec![format!("{metric}{{{matchers}}}"), rate(&format!("{stem}_total"))],
        };
        let summed = |one: String| match &self.about {
            About::External => one,
            About::Namespace => format!("sum({one})"),
            About::Objects { .. } => format!("sum by ({by}) ({one})"),
        };
        series.into_iter().map(summed).collect::<Vec<_>>().join(" or ")
    }
}

/// None for what cannot be said in PromQL: it was refused by the API before.
fn matcher(requirement: &minik8s_api::Requirement) -> Option<String> {
    let name = &requirement.key;
    if !crate::monitors::is_label_name(name) {
        return None;
    }
    let first = requirement.values.first().map(String::as_str).unwrap_or_default();
    let any: Vec<String> = requirement.values.iter().map(|value| escaped(value)).collect();
    Some(match requirement.operator {
        Operator::Equals | Operator::DoubleEquals => format!("{name}={}", quoted(first)),
        Operator::NotEquals => format!("{name}!={}", quoted(first)),
        Operator::In => format!("{name}=~{}", quoted(&any.join("|"))),
        Operator::NotIn => format!("{name}!~{}", quoted(&any.join("|"))),
        Operator::Exists => format!("{name}!=\"\""),
        Operator::DoesNotExist => format!("{name}=\"\""),
        Operator::GreaterThan | Operator::LessThan => return None,
    })
}

/// A text within a pattern; a hyphen means nothing there.
fn escaped(text: &str) -> String {
    regex::escape(text).replace("\\-", "-")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, query: &str, expected: &str) {
        let question = Question::parse(&format!("/apis/{path}"), query).unwrap();
        assert_eq!(question.query(), expected);
        assert!(crate::promql::check(&question.query()).is_ok());
    }

    #[test]
    fn questions_become_queries_of_their_namespace() {
        let external = "external.metrics.k8s.io/v1beta1/namespaces/shop/queue_depth";
        check(
            external,
            "",
            "queue_depth{namespace=\"shop\"} or rate(queue_depth_total{namespace=\"shop\"}[1m])",
        );
        check(
            external,
            "labelSelector=queue%3Da%2Ctier+in+%28x%2Cy.z%29",
            "queue_depth{namespace=\"shop\",queue=\"a\",tier=~\"x|y\\\\.z\"} or \
             rate(queue_depth_total{namespace=\"shop\",queue=\"a\",tier=~\"x|y\\\\.z\"}[1m])",
        );
        check(
            "custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/web-1/http_requests_per_second",
            "",
            "sum by (pod) (http_requests_per_second{namespace=\"shop\",pod=~\"web-1\"}) or \
             sum by (pod) (rate(http_requests_total{namespace=\"shop\",pod=~\"web-1\"}[1m]))",
        );
        check(
            "custom.metrics.k8s.io/v1beta1/namespaces/shop/ingresses.networking.k8s.io/front/hits_total",
            "metricLabelSelector=a%3Db",
            "sum by (ingress) (rate(hits_total{namespace=\"shop\",ingress=~\"front\",a=\"b\"}[1m]))",
        );
        check(
            "custom.metrics.k8s.io/v1beta1/namespaces/shop/metrics/x_total",
            "",
            "sum(rate(x_total{namespace=\"shop\"}[1m]))",
        );
        for bad in [
            "external.metrics.k8s.io/v1beta1/namespaces/shop",
            "external.metrics.k8s.io/v1/namespaces/a/b",
            "x",
        ] {
            assert!(Question::parse(&format!("/apis/{bad}"), "").is_err(), "{bad}");
        }
        let odd = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/a%7Bb";
        assert!(Question::parse(odd, "").is_err());
    }

    #[test]
    fn objects_are_named_by_the_label_of_their_kind() {
        for (resource, label) in [
            ("pods", "pod"),
            ("ingresses.networking.k8s.io", "ingress"),
            ("networkpolicies.networking.k8s.io", "networkpolicy"),
            ("services", "service"),
        ] {
            assert_eq!(Question::label(resource), label);
        }
    }
}
