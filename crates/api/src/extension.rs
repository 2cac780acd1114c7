//! What a feature adds to the API server.

use std::fmt;
use std::sync::Arc;

use minik8s_telemetry::Tracer;

use crate::{
    AdmissionRule, AnonymousRules, AuditSettings, AuthorizationChain, BrowserSessions, Protocol,
    RequestHeaderSettings, Resource, Route, ServiceAccountTokens, TokenAuthenticator,
};

/// What a feature adds to the API server: a value, so that the server knows no feature by name.
#[derive(Clone, Default)]
pub struct Extension {
    /// Kinds of its own, stored or computed.
    pub kinds: Vec<Resource>,
    /// Paths that are no objects.
    pub routes: Vec<Route>,
    /// Protocols of others' with paths of their own.
    pub protocols: Vec<Arc<dyn Protocol>>,
    /// Rules about writes, asked in this order.
    pub admission: Vec<Arc<dyn AdmissionRule>>,
    /// Sessions of browsers, if there are any.
    pub sessions: Option<Arc<dyn BrowserSessions>>,
    /// Who knows tokens of others, asked in this order.
    pub tokens: Vec<Arc<dyn TokenAuthenticator>>,
    /// How service accounts get tokens, if not as by default.
    pub service_account_tokens: Option<ServiceAccountTokens>,
    /// Front proxies that are believed about users, if there are any.
    pub request_header: Option<RequestHeaderSettings>,
    /// Whoever shows no credential, unless all of them are `system:anonymous`.
    pub anonymous: Option<AnonymousRules>,
    /// Who is asked whether a request is allowed; without it, the node authorizer and RBAC.
    pub authorization: Option<Arc<dyn AuthorizationChain>>,
    /// Who did what is told, where this says so.
    pub audit: Option<AuditSettings>,
    /// Who tells of requests as spans of their traces, where somebody wants to know.
    pub tracer: Option<Tracer>,
}

impl Extension {
    /// All of several features together.
    pub fn merge(parts: impl IntoIterator<Item = Extension>) -> Self {
        parts.into_iter().fold(Extension::default(), |mut all, part| {
            all.kinds.extend(part.kinds);
            all.routes.extend(part.routes);
            all.protocols.extend(part.protocols);
            all.admission.extend(part.admission);
            all.sessions = part.sessions.or(all.sessions);
            all.tokens.extend(part.tokens);
            all.service_account_tokens = part.service_account_tokens.or(all.service_account_tokens);
            all.request_header = part.request_header.or(all.request_header);
            all.anonymous = part.anonymous.or(all.anonymous);
            all.authorization = part.authorization.or(all.authorization);
            all.audit = part.audit.or(all.audit);
            all.tracer = part.tracer.or(all.tracer);
            all
        })
    }
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self.kinds.iter().map(Resource::qualified).collect();
        let routes: Vec<&str> = self.routes.iter().map(|route| route.path).collect();
        f.debug_struct("Extension").field("kinds", &kinds).field("routes", &routes).finish()
    }
}
