//! A listener and its tasks: what the origin, the link and the proxies are made of.
//!
//! Every connection is a task in a set that the accepting task owns, and that one sits in a set of its [`RunningListener`]: dropped,
//! everything ends. A panic in any of them is kept and goes on in whoever drops it, so that a script which breaks fails its test.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};

/// How long to wait when the system has no descriptor left for another connection.
const DESCRIPTOR_WAIT: Duration = Duration::from_millis(10);

/// The first panic of a task, until somebody is told; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstPanic(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl FirstPanic {
    /// Keeps what a panic carried.
    pub(crate) fn store(&self, payload: Box<dyn Any + Send>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert(payload);
    }

    fn store_from(&self, ended: Result<(), JoinError>) {
        if let Some(payload) = ended.err().and_then(|error| error.try_into_panic().ok()) {
            self.store(payload);
        }
    }

    /// Goes on with the panic, unless there is one already.
    fn resume(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let payload = kept.take();
        drop(kept);
        if let Some(payload) = payload.filter(|_| !std::thread::panicking()) {
            std::panic::resume_unwind(payload);
        }
    }
}

/// A listener that is being served.
#[derive(Debug)]
pub(crate) struct RunningListener {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The accepting task, which owns the connections' tasks.
    tasks: JoinSet<()>,
    /// What went wrong in them.
    first_panic: FirstPanic,
}

impl RunningListener {
    /// Listens on a free port, and gives each connection to `serve`, which is called in the order they come.
    ///
    /// # Panics
    /// When there is no free port.
    pub(crate) async fn start<F>(
        ip: IpAddr,
        mishap: FirstPanic,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start_at(SocketAddr::new(ip, 0), mishap, serve).await
    }

    /// The same on a port that is known already, or any where that is 0.
    ///
    /// # Panics
    /// When the port is taken.
    pub(crate) async fn start_at<F>(
        address: SocketAddr,
        mishap: FirstPanic,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, mishap.clone(), serve));
        Self {
            address,
            tasks,
            first_panic: mishap,
        }
    }

    /// Ends everything and waits for it.
    ///
    /// # Panics
    /// When a task did.
    pub(crate) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Drop for RunningListener {
    fn drop(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            self.first_panic.store_from(ended);
        }
        self.first_panic.resume();
    }
}

async fn accept<F>(
    listener: TcpListener,
    mishap: FirstPanic,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Small writes go out at once; where that cannot be set, a test is slower and no less right.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(stream));
                }
                Err(_) => tokio::time::sleep(DESCRIPTOR_WAIT).await,
            },
            Some(ended) = connections.join_next(), if !connections.is_empty() => mishap.store_from(ended),
        }
    }
}

/// Makes the close that follows a reset: what was not yet taken by the peer is lost.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    // A zero never blocks. A socket that cannot be told so is gone already.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
