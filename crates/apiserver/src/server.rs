//! Puts the parts together and runs them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ipnet::Ipv4Net;
use jiff::Timestamp;
use minik8s_auth::User;
use minik8s_auth::pki::{self, Pki};
use minik8s_auth::service_account_token::TokenIssuer;
use minik8s_auth::token_file::TokenFile;
use minik8s_metrics::{Decisions, History};
use minik8s_store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::{AddressRanges, Chain};
use crate::api::Api;
use crate::authenticator::Authenticator;
use crate::authorizer::Authorizer;
use crate::catalog::Catalog;
use crate::error::ApiError;
use crate::flow::InFlight;
use crate::local::LocalService;
use crate::metrics::Metrics;
use crate::node_proxy::NodeProxy;
use crate::peers::Live;
use crate::registry::Registry;
use crate::{aggregation, bootstrap, custom, expiry, listener, peers};

/// As many requests at once as upstream allows.
const READING: usize = 400;
const WRITING: usize = 200;
const RENEWAL_CHECK: Duration = Duration::from_secs(3600);

/// What the API server must be told.
#[derive(Debug, Clone)]
pub struct Config {
    pub bind: SocketAddr,
    /// The address that others reach this server at.
    pub advertise: IpAddr,
    pub service_cidr: Ipv4Net,
    pub cluster_domain: String,
    pub token_auth_file: Option<PathBuf>,
    /// Other servers may use the same store.
    pub has_peers: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address} (is another server running there? choose another port with --port)")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("certificates: {0}")]
    Pki(#[from] pki::PkiError),
    #[error("--token-auth-file {path}: {why}")]
    TokenFile { path: PathBuf, why: String },
    #[error("--service-cidr {0}: at least 16 addresses are needed (a /28 or larger)")]
    ServiceCidr(Ipv4Net),
    #[error("making the first objects: {0}")]
    Bootstrap(ApiError),
}

/// A running API server.
pub struct Server {
    api: Arc<Api>,
    address: SocketAddr,
    live: watch::Receiver<Live>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Server {
    /// Listens, makes what a fresh cluster needs, and serves in the background.
    pub async fn start(config: Config, store: Arc<dyn Store>, pki: Arc<Pki>) -> Result<Server, StartError> {
        if config.service_cidr.prefix_len() > 28 {
            return Err(StartError::ServiceCidr(config.service_cidr));
        }
        let listen_error = |source| StartError::Listen { address: config.bind, source };
        let tcp = TcpListener::bind(config.bind).await.map_err(listen_error)?;
        let address = tcp.local_addr().map_err(listen_error)?;
        let tls = TlsAcceptor::from(Arc::new(pki::server_config(&pki)?));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let api = Arc::new(assemble(&config, store, &pki, address, stop.clone())?);
        // The port answers from the first moment; readiness waits for the objects below.
        tasks.spawn(listener::serve(api.clone(), tcp, tls, stop.clone()));
        let own = SocketAddr::new(config.advertise, address.port());
        let (announce, live) = watch::channel(Live::from([own]));
        let server = Server { api, address, live, tasks, stop };
        server.begin(&config).await.map_err(StartError::Bootstrap)?;
        if config.has_peers {
            server.tasks.spawn(peers::run(server.api.clone(), own, announce, server.stop.clone()));
        }
        server.tasks.spawn(renew_certificates(pki, server.api.clone(), server.stop.clone()));
        Ok(server)
    }

    async fn begin(&self, config: &Config) -> Result<(), ApiError> {
        let api = &self.api;
        custom::load(api).await?;
        bootstrap::run(&api.registry, config, self.address.port()).await?;
        api.authorizer.load(&*api.registry.store).await?;
        api.bootstrapped.store(true, Ordering::Release);
        let authorizer = api.authorizer.clone();
        self.tasks.spawn(authorizer.run(api.registry.store.clone(), self.stop.clone()));
        self.tasks.spawn(custom::run(api.clone(), self.stop.clone()));
        self.tasks.spawn(aggregation::run(api.clone(), self.stop.clone()));
        self.tasks.spawn(expiry::run(api.clone(), self.stop.clone()));
        let port = self.address.port();
        self.tasks.spawn(bootstrap::keep(api.clone(), config.clone(), port, self.stop.clone()));
        Ok(())
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

    /// What `metrics.k8s.io` shows; whoever collects figures puts them there.
    pub fn figures(&self) -> Arc<History> {
        self.api.figures.clone()
    }

    /// What ScalingDecisions show; autoscalers put it there.
    pub fn decisions(&self) -> Arc<Decisions> {
        self.api.decisions.clone()
    }

    /// The API for code in this process, as this user.
    pub fn local(&self, user: User) -> LocalService {
        LocalService::new(self.api.clone(), user)
    }

    /// Stops listening, lets open requests finish for a moment, ends everything.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn assemble(
    config: &Config,
    store: Arc<dyn Store>,
    pki: &Arc<Pki>,
    address: SocketAddr,
    stopping: CancellationToken,
) -> Result<Api, StartError> {
    let authorizer = Arc::new(Authorizer::default());
    let ranges = AddressRanges { services: config.service_cidr, node_ports: 30000..=32767 };
    let registry = Registry {
        store,
        catalog: Arc::new(Catalog::new(minik8s_api::kinds::all())),
        admission: Chain::standard(authorizer.clone(), ranges),
        contended: tokio::sync::Mutex::default(),
        stopping,
    };
    let issuer_url = format!("https://kubernetes.default.svc.{}", config.cluster_domain);
    let host = match config.advertise {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let authenticator = Authenticator {
        issuer: Arc::new(TokenIssuer::new(&issuer_url, &[], pki.token_keys())),
        token_file: read_token_file(config)?,
        server_url: format!("https://{host}:{}", address.port()),
    };
    let kubelet_tls = TlsConnector::from(Arc::new(pki::kubelet_client_config(pki)?));
    Ok(Api {
        registry,
        authenticator,
        authorizer,
        in_flight: InFlight::new(READING, WRITING),
        metrics: Metrics::default(),
        node_proxy: NodeProxy { kubelet_tls },
        figures: Arc::default(),
        decisions: Arc::default(),
        bootstrapped: AtomicBool::new(false),
    })
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
        match pki.renew_if_due(Timestamp::now()) {
            Ok(true) => api.authenticator.issuer.set_keys(pki.token_keys()),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "certificates could not be renewed"),
        }
    }
}

impl Config {
    /// The virtual address of the API server: the first of the service range.
    pub fn service_address(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.service_cidr.network()) + 1)
    }
}
