//! Tidegate's seeded simulator: whole jobs in one thread, with faults, checked against an oracle
