//! Where to listen, and what can be wrong with that.

use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use tidegate_types::options::{RestPort, RestSettings};

/// A place to listen at: a name or IP address, and a port; port 0 is any free one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

/// A server that can't be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The name stands for no address.
    #[error(
        "rest.address: `{host}` can't be resolved: {source}. Use an IP address, or a name that this machine knows"
    )]
    Resolve {
        /// The name.
        host: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The address can't be listened at.
    #[error("the REST interface can't listen at {address}: {source}. {}", remedy(source))]
    Bind {
        /// The address.
        address: Address,
        /// What the system says.
        source: std::io::Error,
    },
    /// The socket is there and can't be used.
    #[error("the REST interface's socket can't be used: {0}")]
    Socket(std::io::Error),
}

fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "Another process listens there: stop it, or set rest.port to another port, or to 0 for any free one"
        }
        ErrorKind::AddrNotAvailable => {
            "Set rest.address to an address of this machine, or to 0.0.0.0 for all of them"
        }
        ErrorKind::PermissionDenied => {
            "Ports below 1024 need a privilege: set rest.port to a higher one, or to 0 for any free one"
        }
        _ => "Check rest.address and rest.port",
    }
}

impl Address {
    /// A host, by name or IP address, and a port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// What a job's options say; `None` if nothing is to listen.
    pub fn configured(settings: &RestSettings) -> Option<Self> {
        let port = match settings.port {
            RestPort::Off => return None,
            RestPort::Any => 0,
            RestPort::Port(port) => port,
        };
        Some(Self::new(settings.address.clone(), port))
    }

    /// The name or IP address as it was given.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port as it was given.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Listens. Of the addresses that a name stands for the first that works is taken, IPv4 before IPv6: clients that
    /// try one address only try 127.0.0.1.
    pub(crate) fn listen(&self) -> Result<TcpListener, ServeError> {
        let bare = self
            .host
            .strip_prefix('[')
            .and_then(|h| h.strip_suffix(']'))
            .unwrap_or(&self.host);
        let resolve = |source| ServeError::Resolve {
            host: self.host.clone(),
            source,
        };
        let mut found: Vec<SocketAddr> = (bare, self.port).to_socket_addrs().map_err(resolve)?.collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        let bind = |source| ServeError::Bind {
            address: self.clone(),
            source,
        };
        TcpListener::bind(&found[..]).map_err(bind)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip().to_string(), address.port())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') && !self.host.starts_with('[') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
