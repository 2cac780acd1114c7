//! The API as its clients see it, in process: no sockets, no TLS, a store in a temporary directory.

mod cluster;
mod listing;
mod watching;
