//! Effects outside `/usr`: how each is done and undone.
