//! Tidegate's web interface: REST with Flink's paths, Prometheus metrics and a status page, on one port.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate_runtime::master::local::Engine;
//! use tidegate_web::{Address, Server};
//!
//! let engine = Engine::shared()?;
//! let server = Server::start(&engine, &Address::new("localhost", 8081))?;
//! println!("http://{}/", server.local_addr());
//! # Ok(())
//! # }
//! ```
//!
//! Owns: paths, JSON bodies, metric names, HTML, the socket. Does not own: anything about jobs; what it shows it reads
//! from their status boards, what it is asked for it hands on ([`Jobs`], [`Job`]). Where to read next: `routes.rs` for
//! what there is, `server.rs` for the limits, `docs/rest.md` for users.

mod address;
mod error;
mod guard;
mod handlers;
mod ids;
mod jobs;
mod operations;
mod page;
mod prometheus;
mod rates;
mod respond;
mod routes;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod times;

pub use address::{Address, ServeError};
pub use jobs::{Answer, Answering, Job, JobPlan, Jobs, PlanInput, PlanVertex};
pub use server::Server;
