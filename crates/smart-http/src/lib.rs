//! A session with one repository URL over smart HTTP: discovery, redirects, credentials, posts.
