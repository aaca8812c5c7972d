//! HTTP/1.1 over a pool of connections.
