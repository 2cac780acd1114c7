//! What expressions of webhooks and policies can name of a request.

use std::sync::Arc;

use minik8s_auth::{Attributes, User};
use minik8s_cel::{Bindings, Check, Decision, Question, Value, admission};
use serde_json::Value as Json;

use crate::authorizer::Authorizer;
use crate::registry::Call;

/// The request of a review, and who answers about the rights of its user.
pub struct Variables<'a> {
    question: &'a Json,
    asker: Asker<'a>,
    of_request: Question,
}

impl<'a> Variables<'a> {
    pub fn new(question: &'a Json, call: &'a Call, authorizer: &'a Authorizer) -> Self {
        let of_request = Question {
            group: call.served.group.clone(),
            resource: call.served.plural.clone(),
            subresource: call.subresource.clone(),
            namespace: call.namespace.clone(),
            name: question["name"].as_str().unwrap_or_default().to_owned(),
            ..Question::default()
        };
        Variables { question, asker: Asker { authorizer, user: &call.user }, of_request }
    }

    pub fn bind(&self) -> Bindings<'_> {
        self.bind_object(&self.question["object"])
    }

    /// With another object than the one of the review.
    pub fn bind_object<'b>(&'b self, object: &'b Json) -> Bindings<'b> {
        let of_resource = Check::of_resource(&self.asker, self.of_request.clone());
        Bindings::new()
            .with("object", Value::of_json(object, None))
            .with("oldObject", Value::of_json(&self.question["oldObject"], None))
            .with("request", Value::of_json(self.question, admission::request()))
            .with("authorizer", Value::Check(Arc::new(Check::new(&self.asker))))
            .with("authorizer.requestResource", Value::Check(Arc::new(of_resource)))
    }
}

/// Answers what expressions ask about the rights of the request's user, or of a service account.
struct Asker<'a> {
    authorizer: &'a Authorizer,
    user: &'a User,
}

impl minik8s_cel::Authorizer for Asker<'_> {
    fn decide(&self, question: &Question) -> Decision {
        let account = question.service_account.as_ref().map(|(namespace, name)| {
            let group = format!("system:serviceaccounts:{namespace}");
            let name = format!("system:serviceaccount:{namespace}:{name}");
            User::authenticated(&name, &["system:serviceaccounts", &group])
        });
        let user = account.as_ref().unwrap_or(self.user);
        let wanted = match &question.path {
            Some(path) => Attributes::path(&question.verb, path),
            // A selector only narrows: leaving it out asks for more, which is safe.
            None => Attributes {
                namespace: &question.namespace,
                subresource: &question.subresource,
                name: &question.name,
                ..Attributes::resource(&question.verb, &question.group, &question.resource)
            },
        };
        let judged = self.authorizer.judge_now(user, &wanted);
        let (allowed, error) = (judged.decision.is_allowed(), judged.error);
        let reason = judged.decision.reason().to_owned();
        Decision { allowed, reason, error: error.filter(|_| !allowed) }
    }
}
