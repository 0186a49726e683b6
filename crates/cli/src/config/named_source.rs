//! A file of settings as a source of figment.

/// A TOML source whose keys are nested under the name of its file.
pub(super) struct NamedSource<'n, P> {
    pub(super) name: &'n str,
    pub(super) inner: P,
    pub(super) origin: String,
}

impl<P: figment::Provider> figment::Provider for NamedSource<'_, P> {
    fn metadata(&self) -> figment::Metadata {
        figment::Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<figment::value::Map<figment::Profile, figment::value::Dict>, figment::Error> {
        let data = self.inner.data()?;
        Ok(data
            .into_iter()
            .map(|(profile, values)| {
                let under = figment::value::Dict::from([(self.name.to_owned(), values.into())]);
                (profile, under)
            })
            .collect())
    }
}
