//! Drivers: who calls a task's step, and when.
//!
//! In production each task has an OS thread ([`threads`]), since user code may block; one more thread per process
//! interrupts tasks whose step has lasted long ([`ticker`]), so that flushes and timers keep their time behind slow
//! user code. The simulator is a driver of its own.

pub mod pool;
pub mod threads;
pub mod ticker;
