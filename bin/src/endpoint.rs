//! Which service a command speaks to, and with which token.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use rookery_messages::settings::Settings;

use crate::cli::Remote;
use crate::client::{Client, is_loopback_url};
use crate::config::{self, Environment};
use crate::exit::{Exit, Failure};

/// The file in `data_dir` that holds the admin token.
pub const TOKEN_FILE: &str = "admin.token";

/// From the command line, else the configuration, which is read only where it is needed.
pub fn client(
    named: Option<&Path>,
    environment: &Environment,
    remote: &Remote,
) -> Result<Client, Failure> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (url, token) = (given(&remote.url), given(&remote.token));
    if let (Some(url), Some(token)) = (&url, &token) {
        return Ok(Client::new(url, Some(token.clone()))?);
    }
    // Our own admin token goes to our own machine only, never to an address somebody named.
    if let Some(url) = url.as_deref().filter(|url| !is_loopback_url(url)) {
        return Ok(Client::new(url, token)?);
    }
    let mut needed = Vec::new();
    if url.is_none() {
        needed.push("gateway.listen");
    }
    if token.is_none() {
        needed.extend(["gateway.tokens", "data_dir"]);
    }
    let settings = config::load_for_client(named, environment, &needed)?;
    let url = match url {
        Some(url) => url,
        None => base_url(listen_address(&settings)?)?,
    };
    let token = token.or_else(|| own_token(&settings));
    let looked_for = token.is_none().then(|| settings.data_dir.join(TOKEN_FILE));
    Ok(Client::new(&url, token)?.without_token_from(looked_for))
}

/// For the service of this configuration at the address it really has.
pub fn local_client(settings: &Settings, address: SocketAddr) -> Result<Client, Failure> {
    Ok(Client::new(&base_url(address)?, own_token(settings))?)
}

/// `gateway.listen`, which the configuration check has read already.
pub fn listen_address(settings: &Settings) -> Result<SocketAddr, Failure> {
    settings
        .gateway
        .listen
        .parse()
        .map_err(|_| Failure::failed("gateway.listen is not an address and port"))
}

/// Where a client reaches a service that listens there.
pub fn base_url(address: SocketAddr) -> Result<String, Failure> {
    if address.port() == 0 {
        return Err(Failure::new(
            Exit::Usage,
            "gateway.listen has port 0, so the service's port is not known; name it with --url",
        ));
    }
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    Ok(format!("http://{}", SocketAddr::new(ip, address.port())))
}

/// The configured token that may do most, else the one the service made at its first start.
fn own_token(settings: &Settings) -> Option<String> {
    let configured = settings.gateway.tokens.iter().max_by_key(|token| token.role);
    match configured {
        Some(token) => Some(token.token.expose().to_owned()),
        None => std::fs::read_to_string(settings.data_dir.join(TOKEN_FILE))
            .ok()
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(data: &Path) -> Settings {
        Settings { data_dir: data.to_owned(), ..Settings::default() }
    }

    #[test]
    fn the_admin_token_of_the_data_folder_is_used_when_none_is_configured() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(own_token(&settings(dir.path())), None);
        std::fs::write(dir.path().join(TOKEN_FILE), "abc\n").unwrap();
        assert_eq!(own_token(&settings(dir.path())).as_deref(), Some("abc"));
        let text = "data_dir = 'd'\n[[gateway.tokens]]\nname='v'\nrole='viewer'\ntoken='viewer-viewer-viewer'\n\
                    [[gateway.tokens]]\nname='a'\nrole='operator'\ntoken='operator-operator-1'";
        let loaded = config::load_text(None, text, &Environment::default()).unwrap();
        assert_eq!(own_token(&loaded.settings).as_deref(), Some("operator-operator-1"));
    }

    // I12
    #[test]
    fn the_admin_token_is_not_sent_to_a_foreign_address() {
        crate::install_crypto();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(TOKEN_FILE), "admin-token-of-this-host").unwrap();
        let data = dir.path().display().to_string();
        let environment = Environment::from([("ROOKERY__DATA_DIR", data.as_str())]);
        let sent = |url: &str| {
            let remote = Remote { url: Some(url.to_owned()), token: None };
            let client = client(None, &environment, &remote).ok().unwrap();
            let request = client.request(reqwest::Method::GET, client.url(&["livez"], &[]));
            request.build().unwrap().headers().contains_key("authorization")
        };
        assert!(sent("http://127.0.0.1:9"));
        assert!(!sent("http://rookery.example:9"));
    }

    #[test]
    fn a_service_on_every_address_is_reached_over_loopback() {
        assert_eq!(base_url("0.0.0.0:80".parse().unwrap()).ok().unwrap(), "http://127.0.0.1:80");
        assert_eq!(base_url("[::]:80".parse().unwrap()).ok().unwrap(), "http://[::1]:80");
        assert_eq!(base_url("127.0.0.1:0".parse().unwrap()).err().unwrap().exit, Exit::Usage);
    }
}
