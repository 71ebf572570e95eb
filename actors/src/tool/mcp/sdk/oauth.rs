//! Authorization by OAuth 2.1, as MCP has it. Discovery, registration, proof keys and renewal are the
//! SDK's; here is who is asked, and where tokens are kept.

use std::future::Future;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationRequest,
    ClientCredentialsConfig, CredentialStore, OAuthState, StoredCredentials,
};
use rmcp::transport::streamable_http_client::InsufficientScopeError;
use rookery_messages::BoxFuture;
use rookery_messages::settings::Secret;

use super::session::chain;

/// Gets a person's consent in a browser.
pub trait Consent: Send + Sync + 'static {
    /// The address the person is sent back to.
    fn redirect(&self) -> String;
    /// Has a person open `url`; gives the address they were sent back to.
    fn obtain(&self, url: String) -> BoxFuture<'_, Result<String, String>>;
}

/// How requests to a server are authorized.
#[derive(Clone, Default)]
pub struct OAuth {
    /// The client's id at the authorization server; none: it registers itself.
    pub client_id: Option<String>,
    /// The client's secret.
    pub client_secret: Option<Secret>,
    /// The address of the client's metadata document, for servers that take one.
    pub metadata_url: Option<String>,
    /// What to ask for; empty: what the server names.
    pub scopes: Vec<String>,
    /// The client acts for itself, with its id and secret: nobody is asked.
    pub for_itself: bool,
    /// Where tokens are kept, beyond this process.
    pub tokens: Option<PathBuf>,
    /// Who asks a person.
    pub consent: Option<Arc<dyn Consent>>,
}

/// What a connection authorizes its requests with.
pub(super) struct Authority {
    url: String,
    oauth: OAuth,
    client: AuthClient<reqwest::Client>,
}

impl Authority {
    /// With what is known before the server has asked for anything.
    pub(super) async fn new(
        url: &str,
        oauth: OAuth,
        client: reqwest::Client,
    ) -> Result<Self, String> {
        let manager = if oauth.for_itself {
            let mut state = OAuthState::new(url, None).await.map_err(said)?;
            let config = ClientCredentialsConfig::ClientSecret {
                client_id: oauth.client_id.clone().unwrap_or_default(),
                client_secret: oauth
                    .client_secret
                    .as_ref()
                    .map(|secret| secret.expose().to_owned())
                    .unwrap_or_default(),
                scopes: oauth.scopes.clone(),
                resource: Some(url.to_owned()),
            };
            state.authenticate_client_credentials(config).await.map_err(said)?;
            authorized(state)?
        } else {
            let mut manager = manager(url, &oauth).await?;
            manager.initialize_from_store().await.map_err(said)?;
            manager
        };
        Ok(Self { url: url.to_owned(), oauth, client: AuthClient::new(client, manager) })
    }

    /// What the transport sends requests with.
    pub(super) fn client(&self) -> AuthClient<reqwest::Client> {
        self.client.clone()
    }

    /// The server asks for authorization: has a person give it.
    pub(super) async fn obtain(&self, challenge: &str) -> Result<(), String> {
        let consent = self.consent()?;
        let mut request = AuthorizationRequest::new(consent.redirect())
            .with_client_name("Rookery")
            .with_scopes(self.oauth.scopes.clone())
            .with_challenge(challenge);
        request.client_id = self.oauth.client_id.clone();
        request.client_secret =
            self.oauth.client_secret.as_ref().map(|secret| secret.expose().to_owned());
        request.client_metadata_url = self.oauth.metadata_url.clone();
        let mut state = OAuthState::Unauthorized(manager(&self.url, &self.oauth).await?);
        state.start_authorization(request.with_initial_scope_selection()).await.map_err(said)?;
        let page = state.get_authorization_url().await.map_err(said)?;
        let back = consent.obtain(page).await?;
        state.handle_callback_url(&back).await.map_err(said)?;
        *self.client.auth_manager.lock().await = authorized(state)?;
        Ok(())
    }

    /// A request needs more than was granted: has a person grant it. The SDK bounds how often.
    pub(super) async fn widen(&self, scope: &str) -> Result<(), String> {
        let consent = self.consent()?;
        let manager = self.client.auth_manager.lock().await;
        let page = manager.request_scope_upgrade(scope).await.map_err(said)?;
        let back = consent.obtain(page).await?;
        let back = AuthorizationCallback::from_redirect_url(&back).map_err(said)?;
        manager
            .exchange_code_for_token_with_issuer(
                &back.code,
                &back.csrf_token,
                back.issuer.as_deref(),
            )
            .await
            .map_err(said)?;
        Ok(())
    }

    fn consent(&self) -> Result<Arc<dyn Consent>, String> {
        self.oauth.consent.clone().ok_or_else(|| {
            "it asks for authorization: run `rookery mcp login` with its name, or give it a token \
             in mcp.servers.<name>.headers"
                .to_owned()
        })
    }
}

async fn manager(url: &str, oauth: &OAuth) -> Result<AuthorizationManager, String> {
    let mut manager = AuthorizationManager::new(url).await.map_err(said)?;
    if let Some(path) = &oauth.tokens {
        manager.set_credential_store(TokenFile(path.clone()));
    }
    Ok(manager)
}

fn authorized(state: OAuthState) -> Result<AuthorizationManager, String> {
    let none = || "the authorization server granted nothing".to_owned();
    state.into_authorization_manager().ok_or_else(none)
}

fn said(error: AuthError) -> String {
    format!("it could not be authorized: {}", chain(&error))
}

/// The scope that a refused request needs, if that is why it was refused.
pub(super) fn missing_scope(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(refused) = current.downcast_ref::<InsufficientScopeError>() {
            return refused.required_scope.clone();
        }
        next = current.source();
    }
    None
}

/// Tokens in a file that nobody else may read. Tools may not touch it: it lies in the data folder.
struct TokenFile(PathBuf);

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl CredentialStore for TokenFile {
    fn load<'life0, 'async_trait>(&'life0 self) -> Answer<'async_trait, Option<StoredCredentials>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            match std::fs::read(&self.0) {
                Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
                    broken(&self.0, &format!("can't be understood: {error}; remove it"))
                }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(broken(&self.0, &format!("can't be read: {error}"))),
            }
        })
    }

    fn save<'life0, 'async_trait>(
        &'life0 self,
        credentials: StoredCredentials,
    ) -> Answer<'async_trait, ()>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            write(&self.0, &credentials)
                .map_err(|error| broken(&self.0, &format!("can't be written: {error}")))
        })
    }

    fn clear<'life0, 'async_trait>(&'life0 self) -> Answer<'async_trait, ()>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            match std::fs::remove_file(&self.0) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(broken(&self.0, &format!("can't be removed: {error}")))
                }
                _ => Ok(()),
            }
        })
    }
}

fn broken(path: &Path, what: &str) -> AuthError {
    AuthError::InternalError(format!("the file of tokens {} {what}", path.display()))
}

/// Whole or not at all.
fn write(path: &Path, credentials: &StoredCredentials) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let temporary = path.with_extension("new");
    let _ = std::fs::remove_file(&temporary);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(credentials)?)?;
    file.sync_all()?;
    std::fs::rename(temporary, path)
}
