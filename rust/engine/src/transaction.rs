//! The driver: runs a plan under the lock, journals it, and undoes it when it fails.
