//! What a user says about the store, and the clients that follow from it.

use std::sync::Arc;

use aws_config::ecs::EcsCredentialsProvider;
use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::web_identity_token::WebIdentityTokenCredentialsProvider;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_types::os_shim_internal::{Env, Fs};
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};
use haul_net::{
    Client, ClientConfig, Login, ProxyRules, RedirectOptions, Refusal, RequestBody, RequestSigner,
    SignerError, SignerFuture, TlsConfigError, UserCredentials, redacted_text,
};
use http::header::HeaderMap;
use http::request::Parts;
use tokio::sync::OnceCell;
use url::Url;

use crate::client::S3Client;
use crate::credentials::CredentialsCache;
use crate::credentials_http::CredentialsHttp;
use crate::endpoint::{AddressingStyle, S3Endpoint};
use crate::signer::S3Signer;

/// The region of requests if nothing names one. The service corrects it.
const DEFAULT_REGION: &str = "us-east-1";

/// Settings of the S3 dialect. What is not set comes from AWS's variables and files.
#[derive(Debug, Clone, Default)]
pub struct S3Config {
    /// The endpoint; AWS by default.
    pub endpoint_url: Option<Url>,
    pub region: Option<String>,
    /// The profile in AWS's files.
    pub profile: Option<String>,
    /// Credentials that a program has of its own: an access key and its secret.
    pub access_key: Option<Login>,
    /// Whether requests are sent without a signature, for public buckets.
    pub no_sign_request: bool,
    /// Whether the user pays for requests (`x-amz-request-payer`, row F19).
    pub request_payer: bool,
    /// Where the bucket stands in URLs.
    pub addressing_style: AddressingStyle,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum S3ConfigError {
    /// Certificates or keys that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    /// The endpoint of a variable or a file is no URL.
    #[error(
        "the endpoint {:?} of the environment or the AWS configuration is not an http or https URL",
        redacted_text(.0)
    )]
    Endpoint(String),
    /// A profile was named, and the files have none of that name.
    #[error("there is no AWS profile {name:?} in {config} and {credentials}")]
    Profile {
        name: String,
        /// The configuration file that was read.
        config: String,
        /// The credentials file that was read.
        credentials: String,
    },
}

impl S3Config {
    /// A client for `s3://` URLs. `net` is what a client for other URLs would have: proxies, trust, timeouts, rate limit. Reads
    /// AWS's files, and looks for credentials with the first request.
    pub async fn connect(&self, net: ClientConfig) -> Result<S3Client, S3ConfigError> {
        let signer = Arc::new(self.signer(&net).await?);
        let http = Client::new(ClientConfig {
            signer: Some(Arc::<S3Signer>::clone(&signer)),
            ..net
        })?;
        Ok(S3Client::new(http, signer))
    }

    /// A signer for a client that may never request an `s3://` URL: AWS's files are read with the first one.
    #[must_use]
    pub fn lazy_signer(self, net: ClientConfig) -> Arc<dyn RequestSigner> {
        Arc::new(LazySigner {
            config: self,
            net,
            signer: OnceCell::new(),
        })
    }

    async fn signer(&self, net: &ClientConfig) -> Result<S3Signer, S3ConfigError> {
        // Whoever needs no credentials may have any AWS_PROFILE.
        if self.access_key.is_none() && !self.no_sign_request {
            self.check_profile().await?;
        }
        let aws = self.load(net).await?;
        let service = aws.service_config();
        let url = match &self.endpoint_url {
            Some(url) => Some(url.clone()),
            None => configured_endpoint(service)
                .or_else(|| aws.endpoint_url().map(str::to_owned))
                .map(parse_endpoint)
                .transpose()?,
        };
        let endpoint = S3Endpoint {
            url,
            style: self.addressing_style,
        };
        let region = self.region.clone();
        let region = region.or_else(|| aws.region().map(|region| region.as_ref().to_owned()));
        let own = self.access_key.as_ref().map(|key| {
            let (id, secret) = (key.user.as_str(), key.password.expose());
            SharedCredentialsProvider::new(Credentials::new(id, secret, None, None, "given"))
        });
        let provider = own
            .or_else(|| aws.credentials_provider())
            .filter(|_| !self.no_sign_request);
        Ok(S3Signer::new(
            endpoint,
            region.unwrap_or_else(|| DEFAULT_REGION.to_owned()),
            provider.map(CredentialsCache::new),
            self.request_payer,
        ))
    }

    /// A profile that is named, by a flag or a variable, must exist: other credentials than its own might be used without a word.
    async fn check_profile(&self) -> Result<(), S3ConfigError> {
        let named = self.profile.clone().or_else(|| variable("AWS_PROFILE"));
        let Some(name) = named else {
            return Ok(());
        };
        let (fs, env, files) = (Fs::real(), Env::real(), Default::default());
        match aws_config::profile::load(&fs, &env, &files, None).await {
            Ok(profiles) if profiles.get_profile(&name).is_none() => {
                let file = |name, default: &str| variable(name).unwrap_or_else(|| default.into());
                Err(S3ConfigError::Profile {
                    name,
                    config: file("AWS_CONFIG_FILE", "~/.aws/config"),
                    credentials: file("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
                })
            }
            // Whoever looks for credentials there says why the files cannot be read.
            _ => Ok(()),
        }
    }

    /// AWS's own configuration: variables, files, and the chain of credential providers, which makes no request yet.
    async fn load(&self, net: &ClientConfig) -> Result<aws_config::SdkConfig, TlsConfigError> {
        // Credentials are asked for by their providers alone: the user's header fields and logins are for other origins.
        let plain = ClientConfig {
            credentials: UserCredentials::default(),
            headers: HeaderMap::new(),
            removed_headers: Vec::new(),
            signer: None,
            // Their requests carry tokens, which are for the host that was asked.
            redirects: RedirectOptions {
                max_redirects: 0,
                ..net.redirects
            },
            ..net.clone()
        };
        let direct = ClientConfig {
            proxy: ProxyRules::default(),
            ..plain.clone()
        };
        let http = CredentialsHttp::new(Client::new(plain)?, Client::new(direct)?);
        // Without a region the chain would ask the metadata service, which takes seconds where there is none.
        let region = self.region.clone().or_else(region_of_environment);
        let region = match region {
            Some(region) => Some(region),
            None => region_of_profile(self.profile.as_deref()).await,
        };
        let region = Region::new(region.unwrap_or_else(|| DEFAULT_REGION.to_owned()));
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).region(region.clone());
        if let Some(profile) = &self.profile {
            let config = ProviderConfig::without_region()
                .with_region(Some(region))
                .with_http_client(http.clone());
            loader = loader
                .profile_name(profile)
                .credentials_provider(profile_credentials(profile, &config));
        }
        Ok(loader.http_client(http).load().await)
    }
}

/// The credentials of a profile that the user named with a flag: as with AWS's own programs those of variables do not count then.
fn profile_credentials(profile: &str, config: &ProviderConfig) -> CredentialsProviderChain {
    let own = ProfileFileCredentialsProvider::builder().profile_name(profile);
    let web_identity = WebIdentityTokenCredentialsProvider::builder();
    let container = EcsCredentialsProvider::builder();
    let instance = ImdsCredentialsProvider::builder();
    CredentialsProviderChain::first_try("Profile", own.configure(config).build())
        .or_else("WebIdentityToken", web_identity.configure(config).build())
        .or_else("EcsContainer", container.configure(config).build())
        .or_else("Ec2InstanceMetadata", instance.configure(config).build())
}

/// Becomes an [`S3Signer`] when it is first needed.
#[derive(Debug)]
struct LazySigner {
    config: S3Config,
    net: ClientConfig,
    signer: OnceCell<S3Signer>,
}

impl LazySigner {
    async fn get(&self) -> Result<&S3Signer, SignerError> {
        let made = self
            .signer
            .get_or_try_init(|| self.config.signer(&self.net));
        Ok(Box::pin(made).await?)
    }
}

impl RequestSigner for LazySigner {
    fn resolve<'a>(&'a self, url: &'a Url) -> SignerFuture<'a, Url> {
        Box::pin(async move { self.get().await?.resolve(url).await })
    }

    fn sign<'a>(
        &'a self,
        url: &'a Url,
        resolved: &'a Url,
        head: &'a mut Parts,
        body: &'a RequestBody,
    ) -> SignerFuture<'a, ()> {
        Box::pin(async move { self.get().await?.sign(url, resolved, head, body).await })
    }

    fn handle_refusal<'a>(&'a self, refusal: Refusal<'a>) -> SignerFuture<'a, bool> {
        Box::pin(async move { self.get().await?.handle_refusal(refusal).await })
    }
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn region_of_environment() -> Option<String> {
    variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"))
}

/// The region in AWS's files.
async fn region_of_profile(profile: Option<&str>) -> Option<String> {
    use aws_config::meta::region::ProvideRegion as _;
    let mut provider = aws_config::profile::region::ProfileFileRegionProvider::builder();
    if let Some(profile) = profile {
        provider = provider.profile_name(profile);
    }
    let region = provider.build().region().await;
    region.map(|region| region.as_ref().to_owned())
}

/// The endpoint for S3 of variables and profiles, before that for all services.
fn configured_endpoint(service: Option<&dyn LoadServiceConfig>) -> Option<String> {
    let key = ServiceConfigKey::builder()
        .service_id("S3")
        .env("AWS_ENDPOINT_URL")
        .profile("endpoint_url")
        .build()
        .ok()?;
    service?.load_config(key)
}

fn parse_endpoint(text: String) -> Result<Url, S3ConfigError> {
    match haul_net::parse_url(&text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err(S3ConfigError::Endpoint(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_is_no_url_is_shown_without_its_login() {
        for text in ["ftp://user:s3cret@host/", "user:s3cret@host"] {
            let error = parse_endpoint(text.to_owned()).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
