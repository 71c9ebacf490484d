//! Tidegate's file connectors: splittable text, CSV and JSON-lines sources and the exactly-once file sink
