//! Chooses a transport: the one room that names them all.
