//! How a connection to an origin comes to be: names, TCP, TLS.
