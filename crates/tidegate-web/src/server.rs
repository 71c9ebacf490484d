//! The socket: accepting, serving, stopping.
//!
//! Owns: the listener, how many connections there are at once and how long each lives. Everything is bounded, because
//! a client that leaks connections would otherwise use up the file descriptors that checkpoints need. Does not own:
//! what is answered (`routes`).
//!
//! HTTP is hyper's, driven here rather than by `axum::serve`, which has neither limits on connections nor on heads.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::Router;
use futures_util::future::{Either, select};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tidegate_runtime::master::local::Engine;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::address::{Address, ServeError};
use crate::guard::Guard;
use crate::jobs::{EngineJobs, Jobs};
use crate::routes::router;
use crate::state::{AppState, Shared};

/// Connections at once. Further ones wait in the system's queue.
const MAX_CONNECTIONS: u32 = 64;

/// One for each connection, and one for the listener: when all are back, nothing is open.
const PERMITS: u32 = MAX_CONNECTIONS + 1;

/// How long a client may take over a request's head, and leave a connection unused.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// How long a connection lives; a client that wants more opens another.
const LIFETIME: Duration = Duration::from_secs(300);

/// What a connection is given to end its last answer.
const GRACE: Duration = Duration::from_secs(5);

/// Until the next try when no connection can be accepted, usually for want of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// Between the samples that rates are made of.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// The web interface of a process: REST, metrics and the status page, on one port.
///
/// It runs on the engine's runtime until it is shut down or dropped; it does not keep the engine alive.
#[derive(Debug)]
pub struct Server {
    local: SocketAddr,
    stop: watch::Sender<bool>,
    open: Arc<Semaphore>,
    /// Operations whose outcome no client has fetched yet.
    unfetched: watch::Receiver<usize>,
}

impl Server {
    /// Listens at an address and shows the jobs of an engine.
    ///
    /// # Errors
    /// When the address can't be resolved or listened at.
    pub fn start(engine: &Arc<Engine>, address: &Address) -> Result<Self, ServeError> {
        Self::serve(
            Arc::new(EngineJobs(Arc::downgrade(engine))),
            engine.handle(),
            address,
        )
    }

    /// Listens at an address and shows any jobs, on a runtime with I/O and time enabled.
    ///
    /// # Errors
    /// When the address can't be resolved or listened at.
    ///
    /// # Panics
    /// If the runtime has no I/O driver.
    pub fn serve(jobs: Arc<dyn Jobs>, runtime: &Handle, address: &Address) -> Result<Self, ServeError> {
        let listener = address.listen()?;
        listener.set_nonblocking(true).map_err(ServeError::Socket)?;
        let local = listener.local_addr().map_err(ServeError::Socket)?;
        let _entered = runtime.enter();
        let listener = TcpListener::from_std(listener).map_err(ServeError::Socket)?;
        let guard = if local.ip().is_loopback() {
            Guard::loopback(address.host())
        } else {
            Guard::open()
        };
        let state = Shared::new(jobs);
        let unfetched = state
            .operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .unfetched();
        let (stop, stopped) = watch::channel(false);
        let open = Arc::new(Semaphore::new(PERMITS as usize));
        let listening = open
            .clone()
            .try_acquire_owned()
            .expect("nobody else has the new semaphore");
        runtime.spawn(sample(state.clone(), stopped.clone()));
        let accepting = accept(listener, router(state, guard), open.clone(), stopped);
        runtime.spawn(async move {
            accepting.await;
            drop(listening);
        });
        tracing::info!("REST interface and status page at http://{local}/");
        Ok(Self {
            local,
            stop,
            open,
            unfetched,
        })
    }

    /// Where it listens: the port that was taken if any would do.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Resolves when the outcome of every operation that clients have begun (savepoints, stops, checkpoints) was
    /// fetched once; at once if none was begun. Who ends a process with its job should wait for this, with a time limit
    /// of his own, and then [shut down](Self::shutdown): otherwise the client that stopped the job never learns where
    /// its savepoint is.
    pub async fn outcomes_fetched(&self) {
        let mut unfetched = self.unfetched.clone();
        // With the state gone nobody can ask any more.
        let _none_left = unfetched.wait_for(|n| *n == 0).await;
    }

    /// Stops listening, and resolves when the port is free and the answers under way are out, or have taken too long.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        // Everybody takes note at once, and a connection's grace is limited.
        let _all = self.open.acquire_many(PERMITS).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Resolves when the server is to stop, or is gone.
async fn stopping(stop: &mut watch::Receiver<bool>) {
    let _gone = stop.wait_for(|stop| *stop).await;
}

/// The future's result, or `None` if the server is to stop first.
async fn unless_stopped<T>(future: impl Future<Output = T>, stop: &mut watch::Receiver<bool>) -> Option<T> {
    match select(pin!(future), pin!(stopping(stop))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

async fn sample(state: AppState, mut stop: watch::Receiver<bool>) {
    let mut due = interval(SAMPLE_EVERY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while unless_stopped(due.tick(), &mut stop).await.is_some() {
        state.sample();
    }
}

async fn accept(
    listener: TcpListener,
    router: Router,
    open: Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let slot = unless_stopped(open.clone().acquire_owned(), &mut stop).await;
        let Some(Ok(slot)) = slot else { return };
        match unless_stopped(listener.accept(), &mut stop).await {
            None => return,
            Some(Ok((stream, _))) => {
                tokio::spawn(connection(stream, router.clone(), stop.clone(), slot));
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "a connection to the REST interface could not be accepted");
                unless_stopped(sleep(ACCEPT_AGAIN), &mut stop).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    mut stop: watch::Receiver<bool>,
    slot: OwnedSemaphorePermit,
) {
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = pin!(serving);
    let ending = pin!(timeout(LIFETIME, stopping(&mut stop)));
    if let Either::Right(_) = select(serving.as_mut(), ending).await {
        serving.as_mut().graceful_shutdown();
        let _in_time = timeout(GRACE, serving).await;
    }
    drop(slot);
}
