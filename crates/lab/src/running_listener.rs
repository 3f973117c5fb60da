//! A listener and its tasks, used by the origin, the link and the proxies.
//!
//! Every connection is a task in a set that the accept task owns; the accept task is in a set of its [`RunningListener`]. To drop that
//! aborts all tasks. It stores the first panic of a task and resumes it in the thread that drops it, so that a script that panics fails its
//! test.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};

/// How long to wait when the system has no descriptor left for another connection.
const DESCRIPTOR_WAIT: Duration = Duration::from_millis(10);

/// The first panic of a task, until it is resumed; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstPanic(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl FirstPanic {
    pub(crate) fn store(&self, payload: Box<dyn Any + Send>) {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stored.get_or_insert(payload);
    }

    fn store_from(&self, ended: Result<(), JoinError>) {
        if let Some(payload) = ended.err().and_then(|error| error.try_into_panic().ok()) {
            self.store(payload);
        }
    }

    /// Resumes the panic, unless this thread is panicking already.
    fn resume(&self) {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let payload = stored.take();
        drop(stored);
        if let Some(payload) = payload.filter(|_| !std::thread::panicking()) {
            std::panic::resume_unwind(payload);
        }
    }
}

#[derive(Debug)]
pub(crate) struct RunningListener {
    pub(crate) address: SocketAddr,
    /// The accepting task, which owns the connections' tasks.
    tasks: JoinSet<()>,
    /// The first panic of any task.
    first_panic: FirstPanic,
}

impl RunningListener {
    /// Listens on a free port, and calls `serve` for each connection, in the order in which they are accepted.
    ///
    /// # Panics
    /// When there is no free port.
    pub(crate) async fn start<F>(
        ip: IpAddr,
        first_panic: FirstPanic,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start_at(SocketAddr::new(ip, 0), first_panic, serve).await
    }

    /// The same on a given port; 0 means any free port.
    ///
    /// # Panics
    /// When the port is taken.
    pub(crate) async fn start_at<F>(
        address: SocketAddr,
        first_panic: FirstPanic,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, first_panic.clone(), serve));
        Self {
            address,
            tasks,
            first_panic,
        }
    }

    /// Aborts all tasks and waits for them.
    ///
    /// # Panics
    /// If a task did.
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
    first_panic: FirstPanic,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Small writes are sent at once. If this fails, a test is slower but still right.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(stream));
                }
                Err(_) => tokio::time::sleep(DESCRIPTOR_WAIT).await,
            },
            Some(ended) = connections.join_next(), if !connections.is_empty() => first_panic.store_from(ended),
        }
    }
}

/// Makes the next close a reset: bytes that the peer has not received are lost.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    // A linger time of zero never blocks. If it cannot be set, the connection is closed already.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
