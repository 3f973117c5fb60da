//! Network namespaces: interfaces, addresses and ports of their own for threads of this process and for its child processes.
//!
//! A thread enters a namespace and leaves it again. Threads and processes that it starts meanwhile are in the namespace, and a socket stays
//! in the namespace in which it was created. A name under `/run/netns` lets other programs enter: `ip netns exec NAME PROGRAM`.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::process::{getgid, getuid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::Runtime;

use super::sys;

/// Where `ip netns` keeps names.
const NAMES: &str = "/run/netns";

/// The namespace of the calling thread.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// The creation of the namespace has needed the same permission.
const MAY_ENTER: &str = "this process may change its network namespace";

/// A network namespace; clones are the same one. It exists until all clones are dropped and no thread, process or socket is in it any more.
#[derive(Debug, Clone)]
pub struct NetworkNamespace(Arc<OpenNamespace>);

#[derive(Debug)]
struct OpenNamespace {
    file: File,
    /// The name, if it is to be removed with this value.
    created_name: Option<PathBuf>,
}

impl NetworkNamespace {
    /// Creates a namespace without a name.
    ///
    /// # Errors
    /// The system's: this needs `CAP_SYS_ADMIN`.
    pub fn create() -> io::Result<Self> {
        Self::create_as(None)
    }

    /// Opens the namespace with this name, or creates it. Dropping the last clone removes a name that this has created.
    ///
    /// # Errors
    /// The system's: this needs `CAP_SYS_ADMIN`.
    pub fn named(name: &str) -> io::Result<Self> {
        let path = Path::new(NAMES).join(name);
        match File::open(&path) {
            Ok(file) => Ok(Self(Arc::new(OpenNamespace {
                file,
                created_name: None,
            }))),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::create_as(Some(path)),
            Err(error) => Err(error),
        }
    }

    fn create_as(name: Option<PathBuf>) -> io::Result<Self> {
        // Root of a user namespace may enter only namespaces that were created in it, and `run` has to return to this one.
        enter(&File::open(CURRENT)?)?;
        let create = || {
            sys::unshare_network()?;
            if let Some(path) = &name {
                std::fs::create_dir_all(NAMES)?;
                File::create_new(path)?;
                // An empty file would look like a namespace.
                mount_bind(CURRENT, path).inspect_err(|_| drop(std::fs::remove_file(path)))?;
            }
            File::open(CURRENT)
        };
        // The namespace is then that of a thread that has ended.
        let created = std::thread::scope(|scope| scope.spawn(create).join());
        let file = created.unwrap_or_else(|payload| std::panic::resume_unwind(payload))?;
        Ok(Self(Arc::new(OpenNamespace {
            file,
            created_name: name,
        })))
    }

    /// Calls `f` while the calling thread is in the namespace, with what it starts and the sockets that it creates.
    ///
    /// # Panics
    /// When the process has lost the permission to change namespaces.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        let home = File::open(CURRENT).expect("every thread has a network namespace");
        let _on_return = EnterOnDrop(&home);
        enter(&self.0.file).expect(MAY_ENTER);
        f()
    }

    /// Starts a tokio runtime in the namespace.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn runtime(&self) -> io::Result<NamespaceRuntime> {
        Ok(NamespaceRuntime {
            // Its threads inherit the namespace, and so do threads that they start.
            runtime: self.run(Runtime::new)?,
            namespace: self.clone(),
        })
    }
}

impl Drop for OpenNamespace {
    fn drop(&mut self) {
        if let Some(path) = &self.created_name {
            // A name that is left over can be used again.
            let _ = unmount(path, UnmountFlags::DETACH);
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes this process root of a new user namespace, in which it may create links, with a network namespace in which only loopback is up. Call
/// it before the process has a second thread. To the rest of the system the process is still its user's.
///
/// # Errors
/// The system's: it allows no user namespaces, or the process has several threads. After an error the process may be in the namespace
/// already, and can only end.
pub fn enter_user_namespace() -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    sys::unshare_user_and_network()?;
    // Without this the kernel lets nobody but root map a group.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    sys::bring_up("lo")
}

/// A tokio runtime in a network namespace.
#[derive(Debug)]
pub struct NamespaceRuntime {
    namespace: NetworkNamespace,
    runtime: Runtime,
}

impl NamespaceRuntime {
    /// Runs a future to its end on the calling thread, which is in the namespace meanwhile.
    ///
    /// # Panics
    /// Within another runtime, and where [`NetworkNamespace::run`] does.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.namespace.run(|| self.runtime.block_on(future))
    }
}

/// Moves the thread that drops it into a namespace, also when it panics.
struct EnterOnDrop<'a>(&'a File);

impl Drop for EnterOnDrop<'_> {
    fn drop(&mut self) {
        enter(self.0).expect(MAY_ENTER);
    }
}

fn enter(namespace: &File) -> io::Result<()> {
    let network = Some(LinkNameSpaceType::Network);
    Ok(move_into_link_name_space(namespace.as_fd(), network)?)
}
