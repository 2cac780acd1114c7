//! GatewayClasses: taken if they name this controller, with what it can do.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use minik8s_meta::Backoff;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches};
use tokio_util::sync::CancellationToken;

use crate::condition::{Problem, Writer};
use crate::kinds::{CLASS, CONTROLLER, GatewayClass, GatewayClassSpec, GatewayClassStatus, SupportedFeature};

const RETRY: Backoff = Backoff::millis(250, 4_000);

/// As the conformance tests of the Gateway API name them, in order. What is not in it is not served, or not well enough.
pub const FEATURES: [&str; 48] = [
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructurePropagation",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
];

pub struct ClassController;

impl Controller for ClassController {
    type Key = Key;
    type Observed = Arc<GatewayClass>;

    fn name(&self) -> &'static str {
        "gateway-class-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<GatewayClass>();
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Arc<GatewayClass>> {
        caches.of::<GatewayClass>().get(key).filter(|class| class.spec.controller_name == CONTROLLER)
    }

    fn plan(&self, class: &Arc<GatewayClass>, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let known = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let writer = Writer { known, generation: class.metadata.generation, now };
        let accepted = match &class.spec.parameters_ref {
            Some(_) => Err(Problem::new("InvalidParameters", "this controller takes no parametersRef")),
            None => Ok(()),
        };
        let features = FEATURES.iter().map(|name| SupportedFeature { name: (*name).to_owned() });
        let status = GatewayClassStatus {
            conditions: vec![
                writer.outcome("Accepted", &accepted),
                writer.condition("SupportedVersion", true, "SupportedVersion", ""),
            ],
            supported_features: features.collect(),
        };
        plan.status(&**class, GatewayClass { status: Some(status), ..GatewayClass::clone(class) });
        plan
    }
}

/// Makes the class that every cluster has, unless it is there, then waits for the end.
pub async fn create_class(client: Client, stop: CancellationToken) {
    let class = GatewayClass {
        metadata: ObjectMeta { name: Some(CLASS.to_owned()), ..ObjectMeta::default() },
        spec: GatewayClassSpec { controller_name: CONTROLLER.to_owned(), ..GatewayClassSpec::default() },
        ..GatewayClass::default()
    };
    let classes: Api<GatewayClass> = Api::all(client);
    let mut retries = RETRY.retries();
    loop {
        match classes.create(&PostParams::default(), &class).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.code == 409 => break,
            Err(error) => tracing::debug!(%error, "cannot make the GatewayClass {CLASS} yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(retries.failed()) => {}
            () = stop.cancelled() => return,
        }
    }
    stop.cancelled().await;
}
