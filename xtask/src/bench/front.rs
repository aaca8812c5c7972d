//! Real servers: nginx, Apache, HAProxy with TLS and HTTP/2, in front of the testkit's, which speaks plain HTTP/1.1 to them.
//!
//! Owns their configuration, written for each run, and their processes. What a client meets, windows and buffering, is
//! theirs; requests are logged behind them. Each runs as one process that ends when it is killed.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rgit_testkit::certificate::Authority;

use super::client::on_path;

/// What `--server` takes.
pub(super) const NAMES: [&str; 4] = ["nginx", "nginx-unbuffered", "apache", "haproxy"];
/// How long one may take until it accepts connections.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server.
#[derive(Debug)]
pub(super) struct Front {
    child: Child,
    address: SocketAddr,
    _files: tempfile::TempDir,
}

/// The program and the Debian package that has it.
fn program(name: &str) -> (&'static str, &'static str) {
    match name {
        "apache" => ("apache2", "apache2"),
        "haproxy" => ("haproxy", "haproxy"),
        _ => ("nginx", "nginx"),
    }
}

/// Why this server can't be used here, or nothing.
pub(super) fn missing(name: &str) -> Option<String> {
    let (program, package) = program(name);
    // Servers are where only root's PATH leads.
    let known = on_path(program).is_some() || Path::new("/usr/sbin").join(program).is_file();
    (!known).then(|| format!("there is no {program} for the server {name}: install the Debian package {package}"))
}

/// The program of a server.
fn find(program: &str) -> PathBuf {
    on_path(program).unwrap_or_else(|| Path::new("/usr/sbin").join(program))
}

/// How this server calls itself, in a line.
pub(super) fn version(name: &str) -> String {
    let (program, _) = program(name);
    let output = Command::new(find(program)).arg("-v").stdin(Stdio::null()).output();
    output.map_or_else(
        |error| format!("{program}: {error}"),
        |output| {
            // nginx tells it on stderr.
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            said.lines().next().unwrap_or_default().trim().to_owned()
        },
    )
}

impl Front {
    /// Starts this server before `target`, listening on an address of `place`.
    ///
    /// # Errors
    /// When it isn't installed or doesn't start; with what it wrote.
    pub(super) fn start(
        name: &str,
        authority: &Authority,
        target: SocketAddr,
        place: Ipv4Addr,
    ) -> anyhow::Result<Front> {
        if let Some(why) = missing(name) {
            bail!("{why}");
        }
        let files = tempfile::tempdir().context("make a temporary directory")?;
        let folder = files.path();
        let (certificate, key) = authority.server_pem(&["localhost", &place.to_string()]);
        let write = |file: &str, text: &str| {
            fs::write(folder.join(file), text).with_context(|| format!("write {file} for {name}"))
        };
        write("server.crt", &certificate)?;
        write("server.key", &key)?;
        write("server.pem", &(certificate + &key))?;
        // None of them says which port it got, so one that is free now is named. Should another take it meanwhile, the
        // start fails.
        let free = TcpListener::bind((place, 0)).context("find a free port")?;
        let address = free.local_addr().context("find a free port")?;
        drop(free);
        write("server.conf", &configuration(name, folder, address, target))?;

        let (program, _) = program(name);
        let path = folder.join("server.conf");
        let log = fs::File::create(folder.join("log")).context("make a log")?;
        let mut command = Command::new(find(program));
        match program {
            "nginx" => command
                .arg("-c")
                .arg(&path)
                .arg("-p")
                .arg(folder)
                .arg("-e")
                .arg(folder.join("errors")),
            "apache2" => command.arg("-X").arg("-f").arg(&path),
            _ => command.arg("-db").arg("-f").arg(&path),
        };
        let errors = log.try_clone().context("make a log")?;
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        let mut front = Front {
            child: child.with_context(|| format!("start {program}"))?,
            address,
            _files: files,
        };
        front.wait(name)?;
        Ok(front)
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    fn wait(&mut self, name: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.try_wait().context("look after the server")?.is_some();
            if ended || begun.elapsed() > PATIENCE {
                let said = |file: &str| fs::read_to_string(self._files.path().join(file)).unwrap_or_default();
                bail!("{name} did not start: {}{}", said("log"), said("errors"));
            }
            // None of them tells when it listens.
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As a distribution ships it, but for what a Git server needs: bodies of any size, and time.
fn configuration(name: &str, folder: &Path, address: SocketAddr, target: SocketAddr) -> String {
    let folder = folder.display();
    match name {
        "apache" => format!(
            "ServerRoot {folder}\nServerName localhost\nPidFile {folder}/pid\nDefaultRuntimeDir {folder}\nErrorLog {folder}/errors\n\
             User www-data\nGroup www-data\n\
             LoadModule mpm_event_module {APACHE}/mod_mpm_event.so\nLoadModule authz_core_module {APACHE}/mod_authz_core.so\n\
             LoadModule ssl_module {APACHE}/mod_ssl.so\nLoadModule http2_module {APACHE}/mod_http2.so\n\
             LoadModule proxy_module {APACHE}/mod_proxy.so\nLoadModule proxy_http_module {APACHE}/mod_proxy_http.so\n\
             Listen {address}\nTimeout 600\nProtocols h2 http/1.1\nLimitRequestBody 0\nSSLEngine on\n\
             SSLCertificateFile {folder}/server.crt\nSSLCertificateKeyFile {folder}/server.key\n\
             ProxyPass / http://{target}/\n"
        ),
        "haproxy" => format!(
            "global\n  maxconn 200\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 600s\n  timeout server 600s\n\
             frontend front\n  bind {address} ssl crt {folder}/server.pem alpn h2,http/1.1\n  default_backend back\n\
             backend back\n  server testkit {target}\n"
        ),
        _ => format!(
            "daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/errors;\nevents {{}}\nhttp {{\n\
             access_log off;\nclient_body_temp_path {folder}/body;\nproxy_temp_path {folder}/proxy;\n\
             fastcgi_temp_path {folder}/fastcgi;\nuwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
             ssl_certificate {folder}/server.crt;\nssl_certificate_key {folder}/server.key;\nclient_max_body_size 0;\n\
             server {{\nlisten {address} ssl http2;\nlocation / {{\nproxy_pass http://{target};\nproxy_http_version 1.1;\n\
             proxy_read_timeout 600s;\nproxy_request_buffering {};\n}}\n}}\n}}\n",
            if name == "nginx" { "on" } else { "off" }
        ),
    }
}

/// Where Debian's Apache has its modules.
const APACHE: &str = "/usr/lib/apache2/modules";

#[cfg(test)]
mod tests {
    use super::*;
    use rgit_testkit::{history, repository::Git, server::GitServer};

    /// Each that is installed serves git; of the others the package is named.
    #[test]
    fn a_server_that_is_there_serves_and_one_that_is_not_is_named() {
        let server = GitServer::builder().hold_head().start().expect("a server");
        let authority = Authority::new();
        let git = Git::new();
        let git = git.with("GIT_SSL_CAINFO", authority.write_ca(git.home()));
        // Ten megabytes don't fit into any buffer on their way: a server that stops reading is found out.
        let source = git.home().join("source");
        history::incompressible(&git, &source, 4, 2_500_000, 1);
        for name in NAMES {
            if let Some(why) = missing(name) {
                println!("skipped: {why}");
                assert!(why.contains("Debian package"), "{why}");
                continue;
            }
            let version = version(name);
            let said = version.to_lowercase();
            assert!(said.contains(name.split('-').next().unwrap_or(name)), "{version}");
            let front = Front::start(name, &authority, server.address(), Ipv4Addr::LOCALHOST).expect(name);
            let served = server.create(&format!("{name}.git"), &[]);
            let url = format!("https://127.0.0.1:{}/{name}.git", front.address().port());
            for version in ["HTTP/1.1", "HTTP/2"] {
                let setting = format!("http.version={version}");
                git.git(
                    &source,
                    [
                        "-c",
                        &setting,
                        "push",
                        "-q",
                        &url,
                        &format!("main:{}", version.replace('.', "")),
                    ],
                );
            }
            assert_eq!(git.refs(&served).len(), 2, "{name}");
            let address = front.address();
            drop(front);
            assert!(TcpStream::connect(address).is_err(), "{name} still listens");
        }
    }
}
