//! Tidegate's REST interface, Prometheus metrics and status page
