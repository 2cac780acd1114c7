//! Puts the parts together and runs them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use minik8s_api::{Extension, Records, Resource};
use minik8s_auth::User;
use minik8s_auth::pki::{self, FrontProxy, Pki};
use minik8s_auth::service_account_token::TokenIssuer;
use minik8s_auth::token_file::TokenFile;
use minik8s_meta::{Cidrs, nth_address};
use minik8s_store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;

use crate::admission::{self, AddressRanges, Chain};
use crate::aggregator::Aggregator;
use crate::api::Api;
use crate::audit::Auditor;
use crate::authenticator::Authenticator;
use crate::authorizer::Authorizer;
use crate::catalog::Catalog;
use crate::error::ApiError;
use crate::flow::InFlight;
use crate::health::Health;
use crate::local::LocalService;
use crate::metrics::Metrics;
use crate::node_proxy::NodeProxy;
use crate::peers::Live;
use crate::records::StoredRecords;
use crate::registry::Registry;
use crate::request_header::{self, RequestHeader};
use crate::{
    aggregation, aggregator, bootstrap, component_status, custom, expiry, flow, listener, peers,
    policy_status, storage_migration,
};

/// As many requests at once as upstream allows.
const REQUESTS: usize = 600;
const RENEWAL_CHECK: Duration = Duration::from_secs(3600);

/// What the API server must be told.
#[derive(Clone)]
pub struct Config {
    /// The built-in kinds, but for those that the server computes itself.
    pub kinds: Vec<Resource>,
    pub bind: SocketAddr,
    /// The address that others reach this server at.
    pub advertise: IpAddr,
    /// One range, or one of each family; the first is that of Services that ask for none.
    pub service_cidr: Cidrs,
    pub cluster_domain: String,
    pub token_auth_file: Option<PathBuf>,
    /// Whether Services may have `externalIPs`.
    pub allow_external_ips: bool,
    /// Other servers may use the same store.
    pub has_peers: bool,
    /// What features add.
    pub extension: Extension,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address} (is another server running there? choose another port with --port)")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("certificates: {0}")]
    Pki(#[from] pki::PkiError),
    #[error("--token-auth-file {path}: {why}")]
    TokenFile { path: PathBuf, why: String },
    #[error("--service-cidr {0}: at least 16 addresses are needed (a /28 or larger; a /124 of IPv6)")]
    ServiceCidr(IpNet),
    #[error(
        "--requestheader-client-ca-file is the cluster's own authority: give --requestheader-allowed-names, or every user \
         with a certificate could be any other"
    )]
    RequestHeader,
    #[error("audit: {0}")]
    Audit(String),
    #[error("making the first objects: {0}")]
    Bootstrap(ApiError),
}

/// A running API server.
pub struct Server {
    api: Arc<Api>,
    address: SocketAddr,
    live: watch::Receiver<Live>,
    tasks: JoinSet<()>,
    names: HashMap<Id, &'static str>,
    stop: CancellationToken,
}

impl Server {
    /// Listens, makes what a fresh cluster needs, and serves in the background.
    pub async fn start(config: Config, store: Arc<dyn Store>, pki: Arc<Pki>) -> Result<Server, StartError> {
        let is_small = |range: &IpNet| range.max_prefix_len() - range.prefix_len() < 4;
        if let Some(range) = config.service_cidr.iter().find(is_small) {
            return Err(StartError::ServiceCidr(range));
        }
        let listen_error = |source| StartError::Listen { address: config.bind, source };
        let tcp = TcpListener::bind(config.bind).await.map_err(listen_error)?;
        let address = tcp.local_addr().map_err(listen_error)?;
        let tls = TlsAcceptor::from(Arc::new(tls_config(&config, &pki)?));
        let stop = CancellationToken::new();
        let api = Arc::new(assemble(&config, store, &pki, address, stop.clone())?);
        let own = SocketAddr::new(config.advertise, address.port());
        let (announce, live) = watch::channel(Live::from([own]));
        let mut server = Server { api, address, live, tasks: JoinSet::new(), names: HashMap::new(), stop };
        // The port answers from the first moment; readiness waits for the objects below.
        let serve = listener::serve(server.api.clone(), tcp, tls, server.stop.clone());
        server.keep("the API server's port", serve);
        server.begin(&config).await.map_err(StartError::Bootstrap)?;
        if config.has_peers {
            let run = peers::run(server.api.clone(), own, announce, server.stop.clone());
            server.keep("the list of servers", run);
        }
        let renew = renew_certificates(pki, server.api.clone(), server.stop.clone());
        server.keep("the renewal of certificates", renew);
        Ok(server)
    }

    async fn begin(&mut self, config: &Config) -> Result<(), ApiError> {
        let api = self.api.clone();
        custom::load(&api).await?;
        bootstrap::run(&api.registry, config, self.address.port()).await?;
        api.authorizer.load(&*api.registry.store).await?;
        let hooks = api.registry.admission.hooks();
        hooks.load(&*api.registry.store).await?;
        let policies = api.registry.admission.policies();
        policies.load(&*api.registry.store).await?;
        api.aggregator.load(&*api.registry.store).await?;
        flow::follow::load(&api).await?;
        api.health.bootstrapped.store(true, Ordering::Release);
        let authorizer = api.authorizer.clone();
        let stop = self.stop.clone();
        self.keep("authorization", authorizer.run(api.registry.store.clone(), stop.clone()));
        self.keep("admission webhooks", hooks.run(api.registry.store.clone(), stop.clone()));
        self.keep("admission policies", policies.run(api.registry.store.clone(), stop.clone()));
        self.keep("the type checking of policies", policy_status::run(api.clone(), stop.clone()));
        self.keep("priority and fairness", flow::follow::run(api.clone(), stop.clone()));
        self.keep("storage migrations", storage_migration::run(api.clone(), stop.clone()));
        self.keep("custom resources", custom::run(api.clone(), stop.clone()));
        self.keep("extension API servers", aggregator::run(api.clone(), stop.clone()));
        self.keep("aggregation", aggregation::run(api.clone(), stop.clone()));
        if let Some(auditor) = &api.auditor {
            self.keep("the audit log", auditor.run(api.clone(), stop.clone()));
        }
        self.keep("the expiry of objects", expiry::run(api.clone(), stop.clone()));
        let keep = bootstrap::keep(api, config.clone(), self.address.port(), stop);
        self.keep("the cluster's first objects", keep);
        Ok(())
    }

    fn keep(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.tasks.spawn(task).id();
        self.names.insert(id, name);
    }

    /// Waits until a part ends that must live as long as the server, and says which and how. The others go on, but the
    /// server is no longer what it should be.
    pub async fn failed(&mut self) -> String {
        let Some(ended) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
        let (id, how) = match ended {
            Ok((id, ())) => (id, "has ended".to_owned()),
            Err(error) => (error.id(), format!("has failed: {error}")),
        };
        format!("{} {how}", self.names.get(&id).unwrap_or(&"a part of the API server"))
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All servers of the cluster that are alive, this one among them.
    pub fn live(&self) -> watch::Receiver<Live> {
        self.live.clone()
    }

    /// What signs the tokens of service accounts.
    pub fn token_issuer(&self) -> Arc<TokenIssuer> {
        self.api.authenticator.issuer.clone()
    }

    /// The API for code in this process, as this user.
    pub fn local(&self, user: User) -> LocalService {
        LocalService::new(self.api.clone(), user)
    }

    /// What features keep beside objects.
    pub fn records(&self) -> Arc<dyn Records> {
        Arc::new(StoredRecords(self.api.clone()))
    }

    /// Stops listening, lets open requests finish for a moment, ends everything.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

fn assemble(
    config: &Config,
    store: Arc<dyn Store>,
    pki: &Arc<Pki>,
    address: SocketAddr,
    stopping: CancellationToken,
) -> Result<Api, StartError> {
    let auditor = config.extension.audit.as_ref().map(Auditor::new).transpose().map_err(StartError::Audit)?;
    let metrics = Metrics::default();
    let chain = config.extension.authorization.clone();
    let authorizer = Arc::new(Authorizer::new(chain, metrics.authorization.clone()));
    let rules = admission::Settings {
        authorizer: authorizer.clone(),
        addresses: AddressRanges { services: config.service_cidr, node_ports: 30000..=32767 },
        pod_security: metrics.pod_security.clone(),
        allow_external_ips: config.allow_external_ips,
        of_features: config.extension.admission.clone(),
        cluster_domain: config.cluster_domain.clone(),
        webhooks: metrics.webhooks.clone(),
        policies: metrics.policies.clone(),
    };
    let bootstrapped = AtomicBool::new(false);
    let health = Arc::new(Health { store: store.clone(), authorizer: authorizer.clone(), bootstrapped });
    let mut kinds = config.kinds.clone();
    kinds.push(component_status::resource(health.clone()));
    kinds.extend(config.extension.kinds.iter().cloned());
    let registry = Registry {
        store,
        catalog: Arc::new(Catalog::new(kinds)),
        admission: Chain::standard(rules),
        contended: tokio::sync::Mutex::default(),
        stopping,
    };
    let host = match config.advertise {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let front_proxies = config.extension.request_header.clone();
    let authenticator = Authenticator {
        issuer: Arc::new(config.issuer(pki)),
        service_account_tokens: config.extension.service_account_tokens.clone().unwrap_or_default(),
        token_file: read_token_file(config)?,
        server_url: format!("https://{host}:{}", address.port()),
        sessions: config.extension.sessions.clone(),
        others: config.extension.tokens.clone(),
        anonymous: config.extension.anonymous.clone(),
        request_header: front_proxies.map(|settings| RequestHeader::new(settings, pki)).transpose()?,
    };
    let kubelet_tls = TlsConnector::from(Arc::new(pki::kubelet_client_config(pki)?));
    Ok(Api {
        registry,
        authenticator,
        authorizer,
        in_flight: InFlight::new(REQUESTS),
        metrics,
        node_proxy: NodeProxy::new(kubelet_tls, config.advertise).map_err(pki::PkiError::from)?,
        health,
        aggregator: Aggregator::new(FrontProxy::load_or_create(pki.directory(), Timestamp::now())?),
        client_ca: pki.ca_pem(),
        routes: config.extension.routes.clone(),
        protocols: config.extension.protocols.clone(),
        auditor,
        tracer: config.extension.tracer.clone(),
    })
}

/// Front proxies may connect, too.
fn tls_config(config: &Config, pki: &Pki) -> Result<rustls::ServerConfig, StartError> {
    let Some(settings) = &config.extension.request_header else { return Ok(pki::server_config(pki)?) };
    if request_header::believes_everybody(settings, pki) {
        return Err(StartError::RequestHeader);
    }
    Ok(pki::server_config_with(pki, &settings.authorities)?)
}

fn read_token_file(config: &Config) -> Result<Option<TokenFile>, StartError> {
    let Some(path) = &config.token_auth_file else { return Ok(None) };
    let error = |why: String| StartError::TokenFile { path: path.clone(), why };
    let text = std::fs::read_to_string(path).map_err(|e| error(e.to_string()))?;
    TokenFile::parse(&text).map(Some).map_err(|e| error(e.to_string()))
}

/// New connections get the renewed certificate; nothing restarts.
async fn renew_certificates(pki: Arc<Pki>, api: Arc<Api>, stop: CancellationToken) {
    loop {
        tokio::select! {
            _ = stop.cancelled() => return,
            _ = tokio::time::sleep(RENEWAL_CHECK) => {}
        }
        let renewed = pki.renew_if_due(Timestamp::now()).and_then(|is_renewed| {
            api.aggregator.renew(Timestamp::now())?;
            Ok(is_renewed)
        });
        match renewed {
            Ok(true) => api.authenticator.issuer.set_keys(pki.token_keys()),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "certificates could not be renewed"),
        }
    }
}

impl Config {
    /// Who issues the tokens of the cluster's service accounts.
    pub fn token_issuer(&self) -> String {
        self.token_issuers().swap_remove(0)
    }

    /// The first one issues, all are accepted.
    fn token_issuers(&self) -> Vec<String> {
        match &self.extension.service_account_tokens {
            Some(tokens) if !tokens.issuers.is_empty() => tokens.issuers.clone(),
            _ => vec![format!("https://kubernetes.default.svc.{}", self.cluster_domain)],
        }
    }

    fn issuer(&self, pki: &Pki) -> TokenIssuer {
        let issuers = self.token_issuers();
        let given = self.extension.service_account_tokens.as_ref().map(|tokens| &tokens.api_audiences);
        let audiences = given.filter(|audiences| !audiences.is_empty()).unwrap_or(&issuers);
        let audiences: Vec<&str> = audiences.iter().map(String::as_str).collect();
        TokenIssuer::new(&self.token_issuer(), &audiences, pki.token_keys()).accepting(&issuers)
    }

    /// The virtual address of the API server: the first of the primary service range.
    pub fn service_address(&self) -> IpAddr {
        let range = self.service_cidr.primary();
        nth_address(range, 1).unwrap_or(range.addr())
    }
}
