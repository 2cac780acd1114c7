//! ScalingDecision: what autoscalers last went by, as objects made when asked for and never stored.

use http::Response;
use serde_json::{Value, json};

use crate::answer::{self, Body};
use crate::api::Api;
use crate::error::{ApiError, Result};
use crate::form::Accepted;
use crate::object::Object;
use crate::registry::Call;
use crate::request::{ListOptions, Query};
use crate::selection::Selection;

/// One of them, or those that the query selects if the call names none.
pub fn answer(api: &Api, call: &Call, query: &Query, accepted: &Accepted) -> Result<Response<Body>> {
    let all = api.decisions.in_namespace(&call.namespace);
    let body = if call.name.is_empty() {
        let selection = Selection::new(&call.served, &ListOptions::parse(query)?)?;
        let chosen = all.iter().filter(|decision| selection.matches(&call.served, decision));
        let objects: Vec<Value> = chosen.map(|decision| (**decision).clone()).collect();
        accepted.form.shape_list(&call.served, json!({}), objects)
    } else {
        let one = all.iter().find(|decision| decision.name() == call.name);
        let one = one.ok_or_else(|| ApiError::not_found(&call.served, &call.name))?;
        accepted.form.shape_one(&call.served, (**one).clone(), false)
    };
    answer::object(200, &body, accepted.yaml)
}
