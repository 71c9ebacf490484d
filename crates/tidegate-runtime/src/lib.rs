//! Tidegate's runtime: gates, chains, tasks, drivers and the embedded job master
