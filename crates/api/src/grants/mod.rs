//! Grants: the lasting yes of people for tools. Given with the answer to an approval (`remember`); listed and revoked here.

pub(crate) mod list;
pub(crate) mod revoke;
