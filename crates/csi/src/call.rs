//! What every call of a driver has: a name, a request and an answer.

use prost::Message;

/// A request that knows its method and what answers it.
pub trait Call: Message + Default {
    type Answer: Message + Default;
    /// `csi.v1.Node`, for example.
    const SERVICE: &'static str;
    const METHOD: &'static str;
}

/// `service!("csi.v1.Node": Request => Answer, "Method"; …)`.
macro_rules! calls {
    ($service:literal: $($request:ident => $answer:ident, $method:literal);+ $(;)?) => {
        $(impl $crate::Call for $request {
            type Answer = $answer;
            const SERVICE: &'static str = $service;
            const METHOD: &'static str = $method;
        })+
    };
}
pub(crate) use calls;
